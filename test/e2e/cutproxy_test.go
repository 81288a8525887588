package e2e

import (
	"flag"
	"fmt"
	"io"
	"net"
	"os"
)

// cutProxy carries TCP connections to an address, and cuts the first ones after a number of bytes from there. Everything that
// is on its way then is lost, in both directions. It writes its own address to a file.
//
// The client can still write until it notices the end. Otherwise the plugin would print its last frame twice: a frame whose
// acknowledgement it cannot write is new to it when it comes again.
func cutProxy() {
	if err := runCutProxy(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runCutProxy() error {
	to := flag.String("to", "", "")
	file := flag.String("address", "", "")
	after := flag.Int64("after", 0, "")
	cuts := flag.Int("cuts", 1, "")
	flag.Parse()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := os.WriteFile(*file, []byte(l.Addr().String()), 0o600); err != nil {
		return err
	}
	for n := 0; ; n++ {
		near, err := l.Accept()
		if err != nil {
			return err
		}
		far, err := net.Dial("tcp", *to)
		if err != nil {
			return err
		}
		var from io.Reader = far
		if n < *cuts {
			from = io.LimitReader(far, *after)
		}
		go func() {
			_, _ = io.Copy(far, near) // either end may close it
			_ = far.Close()
		}()
		go func() {
			_, _ = io.Copy(near, from)
			_ = far.Close()
			_ = near.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, near)
			_ = near.Close()
		}()
	}
}
