/* A server at the unix socket SOCKET: two connections, one of them in a forked process, with so many requests each, which take two calls to read and two to answer. How many
   have been answered is printed. */
#include "common.h"
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

static long serve(int listener, long requests)
{
    const int client = accept(listener, NULL, NULL);
    CHECK(client >= 0);
    long answered = 0;
    for (char bytes[2]; answered < requests; answered++) {
        struct iovec part = {bytes + 1, 1};
        CHECK(read(client, bytes, 1) == 1);
        CHECK((answered & 1 ? recv(client, bytes + 1, 1, 0) : readv(client, &part, 1)) == 1);
        hot();
        CHECK(write(client, bytes, 1) == 1);
        CHECK((answered & 1 ? send(client, bytes + 1, 1, 0) : writev(client, &part, 1)) == 1);
        WHATIF_PROGRESS_NAMED("marked");
    }
    close(client);
    return answered;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    struct sockaddr_un here = {.sun_family = AF_UNIX};
    strncpy(here.sun_path, argv[1], sizeof here.sun_path - 1);
    unlink(here.sun_path);
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&here, sizeof here) == 0 && listen(listener, 8) == 0);
    const long requests = atol(argv[2]);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(serve(listener, requests) != requests);
    const long answered = serve(listener, requests);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    printf("%ld\n", answered + requests);
    return done();
}
