/* A thread waits for an event, which comes at the end of standard input, and prints what the wait has returned. With `samples` it is sampled very often; if that is not possible,
   the reason is the first line, and otherwise its number. With `children` the first thread has children that end all the time. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int event, is_sampled;

static void handler(int signal) {
    (void)signal;
}

static int sample(void) {
    struct perf_event_attr attributes = {.type = PERF_TYPE_SOFTWARE, .size = sizeof attributes};
    attributes.config = PERF_COUNT_SW_TASK_CLOCK;
    attributes.sample_period = 30000; /* nanoseconds: more often, and it would come to nothing else */
    attributes.remove_on_exec = attributes.sigtrap = 1;
    return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0);
}

static void *waits(void *unused) {
    int epoll = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN}, got;
    epoll_ctl(epoll, EPOLL_CTL_ADD, event, &wanted);
    if (is_sampled && sample() < 0)
        printf("no event: %s\n", strerror(errno));
    else
        printf("%ld\n", syscall(SYS_gettid));
    fflush(stdout);
    printf("waited: %d\n", epoll_wait(epoll, &got, 1, -1));
    fflush(stdout);
    return unused;
}

int main(int argc, char **argv) {
    struct sigaction action = {.sa_handler = handler};
    struct pollfd end = {.fd = 0, .events = POLLIN};
    int has_children = argc > 1 && !strcmp(argv[1], "children");
    pthread_t thread;
    is_sampled = argc > 1 && !strcmp(argv[1], "samples");
    event = eventfd(0, 0);
    sigaction(SIGTRAP, &action, 0);
    pthread_create(&thread, 0, waits, 0);
    while (poll(&end, 1, has_children ? 0 : -1) <= 0) {
        /* The C library's fork may block SIGCHLD meanwhile, and then the kernel wakes another thread for it. */
        pid_t child = (pid_t)syscall(SYS_fork);
        if (child == 0)
            _exit(0);
        waitpid(child, 0, 0);
    }
    uint64_t one = 1;
    (void)!write(event, &one, sizeof one);
    pthread_join(thread, 0);
    return 0;
}
