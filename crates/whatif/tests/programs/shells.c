/* Executes its first argument by the shell, again and again, from inside the C library; the second says whether another thread is there. */
#include "common.h"
#include "enough.h"

static void *idle(void *unused)
{
    for (;;)
        pause();
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    CHECK(argc > 2);
    if (atoi(argv[2]))
        CHECK(pthread_create(&thread, NULL, idle, NULL) == 0);
    CHECK(system(NULL) != 0);
    CHECK(WEXITSTATUS(system("exit 3")) == 3);
    for (int i = 0; i < 10 || (is_watched() && !is_enough()); i++) {
        char line[100] = "";
        FILE *lines = popen("env | grep -c -e ^WHATIF_REGION= -e libwhatif_rt", "r");
        CHECK(lines && fgets(line, sizeof line, lines) && strcmp(line, "0\n") == 0);
        CHECK(WEXITSTATUS(pclose(lines)) == 1);
        CHECK(WEXITSTATUS(system(argv[1])) == 7);
        CHECK(getenv("LD_PRELOAD") == NULL && getenv("WHATIF_REGION") == NULL);
    }
    return done();
}
