/* answers SECONDS: two threads, of which one asks and one answers, through a pair of sockets. Nearly all time of `answer` is in a call that may wait; the work
 * behind that call is in `work`. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <whatif.h>

static int sockets[2];
static char question[1 << 16], copy[1 << 16];
static volatile unsigned long sink;

__attribute__((noinline)) static void work(void)
{
    unsigned long x = 88172645463325252;
    for (int i = 0; i < 20000; i++)
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    sink = x;
}

__attribute__((noinline)) static int answer(void)
{
    if (read(sockets[1], copy, sizeof copy) != sizeof copy)
        return 0;
    work();
    return write(sockets[1], copy, 1) == 1;
}

static void *answers(void *unused)
{
    while (answer())
        ;
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    char byte;
    if (argc < 2 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) || pthread_create(&thread, NULL, answers, NULL))
        return 3;
    const time_t end = time(NULL) + atoi(argv[1]);
    while (time(NULL) < end && write(sockets[0], question, sizeof question) == sizeof question && read(sockets[0], &byte, 1) == 1)
        WHATIF_PROGRESS_NAMED("answers");
    close(sockets[0]);
    pthread_join(thread, NULL);
    return 0;
}
