/*
 * sockets.h - listening and connecting within this machine.
 */
#ifndef SOCKETS_H
#define SOCKETS_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "message.h"

/* Where a server listens: a port of the loopback address, or a name in the abstract name space. */
struct place {
    int family;
    socklen_t length;
    union {
        struct sockaddr generic;
        struct sockaddr_in inet;
        struct sockaddr_un named;
    } address;
};

/* Small messages are sent at once. */
static inline void without_delay(const struct place *place, int socket)
{
    const int on = 1;
    if (place->family == AF_INET)
        DO(setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
}

/* Listens at a place that no other process uses; returns the socket. */
static inline int listen_at(struct place *place, int family)
{
    int listener;
    memset(place, 0, sizeof *place);
    place->family = place->address.generic.sa_family = (sa_family_t)family;
    if (family == AF_INET) {
        place->length = sizeof place->address.inet;
        place->address.inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    } else {
        const int name = snprintf(place->address.named.sun_path + 1, 64, "whatif-target-%d", (int)getpid());
        place->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)name);
    }
    DO(listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    DO(bind(listener, &place->address.generic, place->length));
    DO(listen(listener, 64));
    place->length = sizeof place->address;
    DO(getsockname(listener, &place->address.generic, &place->length));
    return listener;
}

/* A connection to a server that listens there. */
static inline int connect_to(const struct place *place)
{
    int connection;
    DO(connection = socket(place->family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    DO(connect(connection, &place->address.generic, place->length));
    without_delay(place, connection);
    return connection;
}

/* The server's end of the next connection. */
static inline int accept_at(const struct place *place, int listener)
{
    int connection;
    DO(connection = accept(listener, NULL, NULL));
    without_delay(place, connection);
    return connection;
}

#endif
