/* message.h - sending and receiving a message through a file descriptor. */
#ifndef MESSAGE_H
#define MESSAGE_H

#include <errno.h>
#include <unistd.h>

/* For calls that return -1 on failure: repeats what a signal interrupted, and gives up on all else. */
#define DO(call)                                                                                   \
    do {                                                                                           \
        while ((call) < 0) {                                                                       \
            if (errno != EINTR) {                                                                  \
                perror(#call);                                                                     \
                exit(1);                                                                           \
            }                                                                                      \
        }                                                                                          \
    } while (0)

#endif
