// Concurrent programs in Go whose regions take a time of one's choice: what making one faster is worth is found out by making it faster.
//
//	go MODE A B SECONDS SPEED    microseconds of regions A and B in a round, how long it runs, and rounds of the loop in a microsecond
//	go speed                     prints the last of these
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

var speed float64
var visits int64
var end time.Time
var pause time.Duration

//go:noinline
func spin(rounds int64) int64 {
	x := int64(1)
	for i := int64(0); i < rounds; i++ {
		x ^= x<<7 ^ i
		x ^= int64(uint64(x) >> 9)
	}
	return x
}

//go:noinline
func regionA(micros float64) int64 { return spin(int64(micros * speed)) }

//go:noinline
func regionB(micros float64) int64 {
	x := spin(int64(micros * speed))
	return x + 1
}

//go:noinline
func done() { atomic.AddInt64(&visits, 1) }

func goes() bool { return time.Now().Before(end) }

// A section under a lock, and work of its own, in three goroutines.
func mutex(a, b float64) {
	var lock sync.Mutex
	var all sync.WaitGroup
	for n := 0; n < 3; n++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for goes() {
				lock.Lock()
				regionA(a)
				lock.Unlock()
				regionB(b)
				done()
			}
		}()
	}
	all.Wait()
}

// Two stages with a channel between them.
func pipeline(a, b float64) {
	items := make(chan int, 4)
	go func() {
		for goes() {
			regionA(a)
			items <- 1
		}
		close(items)
	}()
	for range items {
		regionB(b)
		done()
	}
}

// One goroutine hands out work, and waits for all of it.
func pool(a, b float64) {
	work, results := make(chan int), make(chan int, 4)
	for n := 0; n < 2; n++ {
		go func() {
			for range work {
				regionB(b)
				results <- 1
			}
		}()
	}
	for goes() {
		regionA(a)
		work <- 1
		work <- 1
		<-results
		<-results
		done()
	}
}

// Readers, and one that writes.
func rwmutex(a, b float64) {
	var lock sync.RWMutex
	var all sync.WaitGroup
	for n := 0; n < 2; n++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for goes() {
				lock.RLock()
				regionB(b)
				lock.RUnlock()
				done()
			}
		}()
	}
	for goes() {
		lock.Lock()
		regionA(a)
		lock.Unlock()
		time.Sleep(time.Millisecond)
	}
	all.Wait()
}

// A goroutine that is sent work, and has a timer besides.
func selects(a, b float64) {
	work, back := make(chan int), make(chan int)
	timer := time.NewTicker(5 * time.Millisecond)
	go func() {
		for {
			select {
			case <-work:
				regionB(b)
				back <- 1
			case <-timer.C:
				regionB(b / 4)
			}
		}
	}()
	for goes() {
		regionA(a)
		work <- 1
		<-back
		done()
	}
}

// A server, and two clients that wait for its answers.
func serves(a, b float64) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	handler := func(w http.ResponseWriter, _ *http.Request) {
		regionA(a)
		io.WriteString(w, "x")
	}
	go http.Serve(listener, http.HandlerFunc(handler))
	var all sync.WaitGroup
	for n := 0; n < 2; n++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for goes() {
				answer, err := http.Get("http://" + listener.Addr().String())
				if err != nil {
					panic(err)
				}
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				regionB(b)
				done()
				time.Sleep(pause)
			}
		}()
	}
	all.Wait()
}

// The same with clients that pause, so that it takes little of a CPU.
func servesNowAndThen(a, b float64) {
	pause = 2 * time.Millisecond
	serves(a, b)
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "speed" {
		best := 0.0
		for n := 0; n < 20; n++ {
			begin := time.Now()
			spin(20000000)
			if now := 20000000 / float64(time.Since(begin).Microseconds()); now > best {
				best = now
			}
		}
		fmt.Printf("%.3f\n", best)
		return
	}
	modes := map[string]func(a, b float64){
		"mutex": mutex, "pipeline": pipeline, "pool": pool, "rwmutex": rwmutex, "select": selects, "http": serves,
		"paced-http": servesNowAndThen,
	}
	number := func(n int) float64 {
		value, err := strconv.ParseFloat(os.Args[n], 64)
		if err != nil {
			panic(err)
		}
		return value
	}
	if len(os.Args) != 6 || modes[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: go MODE A B SECONDS SPEED")
		os.Exit(2)
	}
	speed = number(5)
	begin := time.Now()
	end = begin.Add(time.Duration(number(4) * 1e9))
	modes[os.Args[1]](number(2), number(3))
	fmt.Printf("%d visits in %.3f s\n", atomic.LoadInt64(&visits), time.Since(begin).Seconds())
}
