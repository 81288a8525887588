// Flow is what the pods of TestBenchContainers run: a server that sends as much as it can, or a client that says how much it
// got from one.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

const port = ":5001"

func run(args []string) error {
	if len(args) == 1 {
		return measure(args[0])
	}
	l, err := net.Listen("tcp", port)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			for b := make([]byte, 1<<20); err == nil; {
				_, err = c.Write(b)
			}
		}()
	}
}

// measure prints how many gigabits a second come from a server, over five seconds.
func measure(host string) error {
	c, err := net.DialTimeout("tcp", host+port, 10*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	begun := time.Now()
	if err := c.SetDeadline(begun.Add(5 * time.Second)); err != nil {
		return err
	}
	n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 1<<20)) // ends by the deadline
	fmt.Printf("%.1f\n", float64(n)*8/1e9/time.Since(begun).Seconds())
	return nil
}
