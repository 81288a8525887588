//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// web is the workload of `drydock demo`: without arguments it serves HTTP at port 8080 and logs requests; "web get HOST[:PORT]" prints what
// another serves. It speaks HTTP/1.0 by itself, because package net/http would double the size of this program.
func web() error {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "get":
		return webGet(os.Args[2])
	case len(os.Args) != 1:
		return errors.New("usage: web, or web get HOST[:PORT]")
	}
	l, err := net.Listen("tcp", ":8080")
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	fmt.Println("serving HTTP at port 8080")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			r := bufio.NewReader(io.LimitReader(c, 64<<10))
			request := ""
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					return // the client is gone, as a probe that only connects
				}
				if line = strings.TrimSpace(line); line == "" {
					break
				}
				if request == "" {
					request = line
				}
			}
			fmt.Printf("%s %s %q\n", time.Now().UTC().Format(time.RFC3339), c.RemoteAddr(), request)
			_, _ = fmt.Fprintf(c, "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nhello from %s\n", host)
		}()
	}
}

func webGet(host string) error {
	address := host
	if _, _, err := net.SplitHostPort(host); err != nil {
		address = net.JoinHostPort(host, "80")
	}
	c, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.0\r\nHost: %s\r\n\r\n", host); err != nil {
		return err
	}
	b, err := io.ReadAll(io.LimitReader(c, 1<<20))
	if err != nil {
		return err
	}
	_, body, _ := strings.Cut(string(b), "\r\n\r\n")
	fmt.Print(body)
	return nil
}
