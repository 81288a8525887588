package simulated

import (
	"io"
	"net"
	"testing"
)

// TestHalfClose checks that a program can stop sending and still receive the answer.
func TestHalfClose(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	testHalfClose(t, near, far)
	client, server := newPipe()
	testHalfClose(t, client, server)
}

func testHalfClose(t *testing.T, near, far net.Conn) {
	t.Helper()
	defer far.Close()
	conn := (&Computer{ctx: t.Context()}).plug(near)
	defer conn.Close()
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		t.Fatal("the connection cannot be half-closed")
	}
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(far); err != nil || len(b) != 0 {
		t.Errorf("%q, %v", b, err)
	}
	go func() {
		_, _ = far.Write([]byte("answer")) // the other end compares
		_ = far.Close()
	}()
	if b, err := io.ReadAll(conn); err != nil || string(b) != "answer" {
		t.Errorf("%q, %v", b, err)
	}
}
