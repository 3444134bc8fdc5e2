/*
 * What the corners share. Each is a function, chosen by the first argument, that prints what it saw: equal numbers whenever it is
 * run. Another thread runs `hot` meanwhile, so that all others pause in experiments about it; corners that end the process or
 * must have one thread say so.
 */
#ifndef CORNER_H
#define CORNER_H

#include "common.h"

/* How long a corner goes on: for two or three experiments. */
#define SECONDS 0.4

struct corner {
    const char *name;
    void (*run)(void);
    int alone;
};

static double began;
static int second_argument;
__attribute__((unused)) static const char *second_word = "";

__attribute__((unused)) static int going_on(void)
{
    return now() < began + SECONDS && failures < 10;
}

/* Work until experiments go on: it is what surrounds a corner that takes no time itself. */
__attribute__((unused)) static void meanwhile(double seconds)
{
    for (const double end = now() + seconds; now() < end;)
        other();
}

/* This machine does not have what the corner needs. */
__attribute__((unused, noreturn)) static void skipped(const char *why)
{
    printf("skipped: %s (%s)\n", why, strerror(errno));
    fflush(stdout);
    _exit(77);
}

/* How a child ended: its status, or 1000 more than its signal. */
__attribute__((unused)) static int ended(pid_t child)
{
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int run_corner(int argc, char **argv, const struct corner *corners)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (; corners->name; corners++) {
        if (argc < 2 || strcmp(corners->name, argv[1]))
            continue;
        second_word = argc > 2 ? argv[2] : "";
        second_argument = atoi(second_word);
        began = now();
        if (!corners->alone)
            start_background();
        meanwhile(0.1);
        corners->run();
        meanwhile(0.1);
        if (!corners->alone)
            stop_background();
        return done();
    }
    return 99;
}

#endif
