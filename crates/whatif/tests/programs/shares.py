"""Three functions that take known shares of the time: through sorted(), which is C, through a generator, and through Python only.

At the end it says how much CPU time each took, in a thread and in the main thread. Usage: shares.py SECONDS [ROUNDS]"""

import sys
import threading
import time


class Work:
    def by_key(self, item):
        x = 0
        for i in range(7000):
            x += i * i
        return item

    def numbers(self):
        for _ in range(10):
            x = 0
            for i in range(2000):
                x += i * i
            yield x

    def leaf(self):
        x = 0
        for i in range(10000):
            x += i * i
        return x

    def inner(self):
        return self.leaf()

    def once(self, took):
        times = [time.thread_time()]
        sorted(range(10), key=self.by_key)
        times.append(time.thread_time())
        sum(self.numbers())
        times.append(time.thread_time())
        self.inner()
        times.append(time.thread_time())
        for at in range(3):
            took[at] += times[at + 1] - times[at]


def serve(seconds, took):
    work = Work()
    while sum(took) < seconds:
        work.once(took)


def main(seconds, rounds):
    both = [0.0] * 3, [0.0] * 3
    for nth in range(1, rounds + 1):
        thread = threading.Thread(target=serve, args=(seconds * nth, both[0]))
        thread.start()
        thread.join()
        serve(seconds * nth, both[1])
    print(*[sum(of) for of in zip(*both)])


main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
