/* A server with an event loop at the unix socket SOCKET, which answers a byte with a byte; a turn has as many requests as there are. Nothing is marked. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST 16

static volatile unsigned long sink;
static struct pollfd all[MOST];
static int count = 1;

__attribute__((noinline)) static void request(int at)
{
    char byte;
    if (read(all[at].fd, &byte, 1) != 1) {
        all[at].fd = -1;
        return;
    }
    unsigned long x = 88172645463325252;
    for (unsigned long i = 0; i < 60000; i++)
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    sink = x;
    if (write(all[at].fd, &byte, 1) != 1)
        exit(1);
}

__attribute__((noinline)) static void turn(void)
{
    poll(all, count, -1);
    if (all[0].revents != 0 && count < MOST)
        all[count++] = (struct pollfd){.fd = accept(all[0].fd, NULL, NULL), .events = POLLIN};
    for (int i = 1; i < count; i++)
        if (all[i].revents != 0)
            request(i);
    sink++;
}

int main(int arguments, char **values)
{
    struct sockaddr_un here = {.sun_family = AF_UNIX};
    strncpy(here.sun_path, arguments > 1 ? values[1] : "", sizeof here.sun_path - 1);
    all[0] = (struct pollfd){.fd = socket(AF_UNIX, SOCK_STREAM, 0), .events = POLLIN};
    if (bind(all[0].fd, (struct sockaddr *)&here, sizeof here) != 0 || listen(all[0].fd, MOST) != 0)
        return 1;
    for (;;)
        turn();
}
