//go:build linux

package main

import (
	"errors"
	"io"
	"os"

	"github.com/pkg/sftp"
)

// sftpServer serves sftp on standard input and output, in the folder in which it starts.
func sftpServer() error {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	s, err := sftp.NewServer(struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, os.Stdout}, sftp.WithServerWorkingDirectory(dir))
	if err != nil {
		return err
	}
	if err = s.Serve(); errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
