/* Starts the program of its arguments with posix_spawnp, and ends as that did. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    pid_t child;
    int status;
    if (argc < 2 || posix_spawnp(&child, argv[1], NULL, NULL, argv + 1, environ) != 0)
        return 120;
    if (waitpid(child, &status, 0) != child)
        return 121;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
