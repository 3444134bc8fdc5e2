/* Prints what a program can see of where it runs. */
#include "common.h"
#include <dirent.h>
#include <spawn.h>

extern char **environ;

static void descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    char open[100] = {0};
    while ((entry = readdir(folder)))
        if (entry->d_name[0] != '.' && atoi(entry->d_name) < 100 && atoi(entry->d_name) != dirfd(folder))
            open[atoi(entry->d_name)] = 1;
    closedir(folder);
    for (int i = 0; i < 100; i++)
        if (open[i])
            printf("descriptor %d\n", i);
    const int next = dup(0);
    printf("next descriptor %d\n", next);
    close(next);
}

static void signals(void)
{
    char line[200];
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (!strncmp(line, "SigBlk", 6) || !strncmp(line, "SigIgn", 6) || !strncmp(line, "SigPnd", 6))
            fputs(line, stdout);
    fclose(status);
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int i = 1; i < 65; i++) {
        struct sigaction action;
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
            printf("action %d %d %x\n", i, action.sa_handler == SIG_IGN, (unsigned)action.sa_flags);
        if (sigismember(&mask, i))
            printf("blocked %d\n", i);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void everything(void)
{
    /* In no particular order. */
    int count = 0;
    while (environ[count])
        count++;
    char **sorted = malloc((size_t)count * sizeof *sorted);
    memcpy(sorted, environ, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_text);
    for (int i = 0; i < count; i++)
        puts(sorted[i]);
    free(sorted);
    descriptors();
    signals();
}

int main(int argc, char **argv)
{
    char line[300];
    int status;
    if (argc > 1 && !strcmp(argv[1], "child")) {
        printf("child %d\n", argc);
        everything();
        return 9;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    everything();
    start_background();
    while (fgets(line, sizeof line, stdin))
        fputs(line, stdout);
    work_for(0.1);
    snprintf(line, sizeof line, "'%s' child", argv[0]);
    printf("system %d\n", system(line));
    for (int i = 0; i < 3; i++) {
        const pid_t child = fork();
        if (child == 0) {
            hot();
            execl(argv[0], argv[0], "child", "fork", NULL);
            _exit(1);
        }
        waitpid(child, &status, 0);
        printf("fork %x\n", status);
        char *arguments[] = {argv[0], "child", "spawn", NULL};
        pid_t spawned;
        CHECK(posix_spawn(&spawned, argv[0], NULL, NULL, arguments, environ) == 0);
        CHECK(waitpid(spawned, &status, 0) == spawned);
        printf("spawn %x\n", status);
        work_for(0.1);
    }
    FILE *pipe = popen("echo popen", "r");
    CHECK(fgets(line, sizeof line, pipe) != NULL);
    printf("%s%d\n", line, pclose(pipe));
    stop_background();
    return done();
}
