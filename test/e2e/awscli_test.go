package e2e

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	//go:embed testdata/awscli/server.py
	awsServer []byte
	//go:embed testdata/awscli/client.py
	awsClient []byte
)

// withAWS runs tests with the installed aws CLI imported only once: importing it for each command took half of the
// scripts' time. A CLI that is not a Python script (version 2's bundle) is started as usual.
type withAWS struct{ m *testing.M }

func (w withAWS) Run() int {
	stop, err := serveAWS()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: the aws CLI is started for each command:", err)
	}
	defer stop()
	// Scripts wait for more than half of their time: for nodes, time-outs and intervals.
	if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	return w.m.Run()
}

var shebang = regexp.MustCompile(`^#!\s*(/\S*python[0-9.]*)\s*\n`)

// serveAWS starts the server of the installed CLI, puts its client first in PATH, and returns a function that stops the
// server.
func serveAWS() (stop func(), err error) {
	nothing := func() {}
	script, python, err := installedAWS()
	if err != nil {
		return nothing, err
	}
	dir, err := os.MkdirTemp("", "aws") // a short path, for the socket
	if err != nil {
		return nothing, err
	}
	stop = func() { os.RemoveAll(dir) }
	socket, server := filepath.Join(dir, "socket"), filepath.Join(dir, "server.py")
	if err := os.WriteFile(server, awsServer, 0o600); err != nil {
		return stop, err
	}
	cmd := exec.Command(python, server, socket, script)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // closed when this process ends, in whatever way
	if err != nil {
		return stop, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return stop, err
	}
	if err := cmd.Start(); err != nil {
		return stop, err
	}
	stop = func() {
		stdin.Close()
		_ = cmd.Wait()
		os.RemoveAll(dir)
	}
	tooLate := time.AfterFunc(commandLimit, func() { _ = cmd.Process.Kill() })
	defer tooLate.Stop()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		return stop, fmt.Errorf("its server answers %q (%v)", line, err)
	}
	var namespaces []string
	for _, name := range []string{"mnt", "net", "user"} {
		id, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			return stop, err
		}
		namespaces = append(namespaces, id)
	}
	config, err := json.Marshal([]any{socket, script, namespaces})
	if err != nil {
		return stop, err
	}
	client := append([]byte("#!"+python+" -IS\n"), bytes.ReplaceAll(awsClient, []byte("@CONFIG@"), config)...)
	if err := os.WriteFile(filepath.Join(dir, "aws"), client, 0o755); err != nil {
		return stop, err
	}
	return stop, os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// installedAWS returns the script of the installed CLI and the interpreter that it names.
func installedAWS() (script, python string, err error) {
	script, err = exec.LookPath("aws")
	if err != nil {
		return "", "", err
	}
	if strings.Contains(script, "/shims/") { // pyenv's, which start the chosen version's
		out, err := exec.Command("pyenv", "which", "aws").Output()
		if err != nil {
			return "", "", err
		}
		script = strings.TrimSpace(string(out))
	}
	b, err := os.ReadFile(script)
	if err != nil {
		return "", "", err
	}
	found := shebang.FindSubmatch(b)
	if found == nil {
		return "", "", fmt.Errorf("%s is not a Python script", script)
	}
	return script, string(found[1]), nil
}
