import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.LongStream;

/** What a virtual machine does with signals and stacks: null checks and full stacks by faults, safepoints, collections, children. */
public class Corner {
    static Object nothing;
    static long depth;

    static void endless() {
        depth++;
        endless();
    }

    static long nulls() {
        long caught = 0;
        for (int i = 0; i < 20000; i++) {
            try {
                nothing.hashCode();
            } catch (NullPointerException e) {
                caught++;
            }
        }
        return caught;
    }

    static long overflows() {
        long caught = 0;
        for (int i = 0; i < 5; i++) {
            try {
                endless();
            } catch (StackOverflowError e) {
                caught++;
            }
        }
        return caught;
    }

    static long garbage() {
        long sum = 0;
        for (int i = 0; i < 400000; i++) {
            byte[] bytes = new byte[i % 1000 + 1];
            bytes[i % bytes.length] = 1;
            sum += bytes.length;
        }
        return sum;
    }

    static final Object lock = new Object();
    static long counted;

    static long counts() {
        for (int i = 0; i < 50000; i++) {
            synchronized (lock) {
                counted++;
            }
        }
        return LongStream.range(0, 2000000).map(x -> x * x % 7).sum();
    }

    public static void main(String[] arguments) throws Exception {
        var pool = Executors.newFixedThreadPool(4);
        var sums = new java.util.ArrayList<Future<Long>>();
        for (int i = 0; i < 8; i++)
            sums.add(pool.submit(Corner::counts));
        System.out.println("nulls " + nulls() + ", overflows " + overflows() + ", garbage " + garbage());
        for (var sum : sums)
            System.out.println("sum " + sum.get());
        System.out.println("counted " + counted);
        pool.shutdown();
        Process child = new ProcessBuilder("sh", "-c", "exit 3").start();
        System.out.println("child " + child.waitFor());
        Thread sleeper = new Thread(() -> {
            try {
                Thread.sleep(1000000);
            } catch (InterruptedException e) {
                System.out.println("interrupted");
            }
        });
        sleeper.start();
        sleeper.interrupt();
        sleeper.join();
        System.out.println("done");
    }
}
