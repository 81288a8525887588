package cli

import (
	"bufio"
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

func TestSocketOwner(t *testing.T) {
	const list = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0 20 4 30 10 -1
   2: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0 20 4 30 10 -1
`
	listener := netip.MustParseAddrPort("127.0.0.1:8080")
	uid, ok := socketOwner(bufio.NewScanner(strings.NewReader(list)), netip.MustParseAddrPort("127.0.0.1:50000"), listener)
	if !ok || uid != 1001 {
		t.Errorf("owner %d, %v", uid, ok)
	}
	if _, ok := socketOwner(bufio.NewScanner(strings.NewReader(list)), netip.MustParseAddrPort("127.0.0.1:50001"), listener); ok {
		t.Error("nobody has that socket")
	}
}

// The kernel's own list has this test's connection.
func TestOwnPeer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if !ownPeer(far) {
		t.Error("it is this user's")
	}
}

// The proxy of drydock run closes connections of other users without a response.
func TestForwarderRefusesOtherUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		needs.Missing(t, "there is no bash here")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		newForwarder(fakeProxy(t).URL, api.Bearer+"t0ken", "").serve(ctx, ln)
	}()
	defer func() {
		cancel()
		<-done
	}()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	for uid, want := range map[uint32]string{0: "HTTP/1.1 200", 65534: ""} {
		cmd := exec.CommandContext(ctx, bash, "-c", `exec 3<>/dev/tcp/127.0.0.1/`+port+`; printf 'CONNECT sts.amazonaws.com:443 HTTP/1.1\r\nHost: x\r\n\r\n' >&3; head -c 12 <&3`)
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if got, err := cmd.Output(); string(got) != want {
			t.Errorf("user %d gets %q, %v", uid, got, err)
		}
	}
}
