//go:build linux

package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
)

// socket is where the machine's first process accepts calls of the image's programs: see package inside of Drydock.
const socket = "/run/drydock/tools.sock"

// deaf are the programs that never read their standard input. What is typed ahead, or the rest of a script that bash reads from
// there, is for others.
var deaf = []string{"systemctl", "service", "journalctl", "hostnamectl", "kubelet", "nodeadm", "eks-bootstrap", "yum", "dnf", "rpm", "crictl", "ctr", "ping", "ec2-metadata"}

// call calls a program of the image, and returns its exit status.
func call(name string) (int, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 1, err
	}
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket}); err != nil {
		return 1, fmt.Errorf("calling the image's program: %w", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	args := append([]string{name}, os.Args[1:]...)
	body, err := json.Marshal(map[string]any{"Args": args, "Env": os.Environ(), "Dir": dir})
	if err != nil {
		return 1, err
	}
	var theirs, ours []*os.File
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return 1, err
		}
		if i == 0 {
			theirs, ours = append(theirs, r), append(ours, w)
		} else {
			theirs, ours = append(theirs, w), append(ours, r)
		}
	}
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	n, err := syscall.SendmsgN(fd, frame, syscall.UnixRights(int(theirs[0].Fd()), int(theirs[1].Fd()), int(theirs[2].Fd())), nil, 0)
	for err == nil && n < len(frame) {
		var more int
		more, err = syscall.Write(fd, frame[n:])
		n += more
	}
	if err != nil {
		return 1, err
	}
	for _, f := range theirs {
		_ = f.Close()
	}
	go func() {
		if !slices.Contains(deaf, name) {
			_, _ = io.Copy(ours[0], os.Stdin)
		}
		_ = ours[0].Close()
	}()
	var output sync.WaitGroup
	output.Go(func() { _, _ = io.Copy(os.Stdout, ours[1]) })
	output.Go(func() { _, _ = io.Copy(os.Stderr, ours[2]) })
	output.Wait()
	conn := os.NewFile(uintptr(fd), socket)
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		return 1, errors.New("the machine has too many programs at once, or is being switched off")
	}
	var res struct {
		Error  string
		Status int
	}
	if err := json.NewDecoder(io.LimitReader(conn, int64(binary.BigEndian.Uint32(head)))).Decode(&res); err != nil {
		return 1, err
	}
	if res.Error != "" {
		return 1, errors.New(res.Error)
	}
	return res.Status, nil
}
