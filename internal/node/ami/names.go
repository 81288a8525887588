package ami

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// resolver is the DNS server in /etc/resolv.conf.
const resolver = "169.254.169.253"

// resolve returns a name's addresses. silent means that the DNS server does not answer.
func (m *Machine) resolve(ctx context.Context, name string) (all []netip.Addr, silent bool) {
	if m.world.Surroundings.Resolve == nil {
		return nil, true
	}
	all, err := m.world.Surroundings.Resolve(ctx, strings.TrimSuffix(name, "."))
	de, ok := errors.AsType[*net.DNSError](err)
	return all, ok && de.IsTimeout
}

// operandsOf returns a command's arguments without its options, and the options as one string. An option in valued takes
// the next word, which is left out.
func operandsOf(args []string, valued string) (out []string, options string) {
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") && !strings.HasPrefix(args[i], "+") && !strings.HasPrefix(args[i], "@") {
			out = append(out, args[i])
			continue
		}
		options += args[i]
		if len(args[i]) == 2 && strings.Contains(valued, args[i][1:]) {
			i++
		}
	}
	return out, options
}

// dig supports only queries for addresses.
func (m *Machine) dig(ctx context.Context, c *shell.Call) int {
	names, options := operandsOf(c.Args[1:], "tcpqx")
	kind := "A"
	for i, a := range c.Args {
		if a == "-t" && i+1 < len(c.Args) {
			kind = strings.ToUpper(c.Args[i+1])
		} else if strings.EqualFold(a, "AAAA") {
			kind = "AAAA"
		}
	}
	if kind == "ANY" {
		kind = "A"
	}
	names = slicesWithout(names, "A", "AAAA", "IN", "ANY")
	if len(names) != 1 || kind != "A" && kind != "AAAA" {
		return c.Fail("simulated nodes support dig NAME [A|AAAA] [+short]")
	}
	all, silent := m.resolve(ctx, names[0])
	if silent {
		fmt.Fprintf(c.Stdout, ";; communications error to %s#53: timed out\n;; no servers could be reached\n", resolver)
		return 9
	}
	known := len(all) > 0
	all = slices.DeleteFunc(slices.Clone(all), func(a netip.Addr) bool { return a.Is4() != (kind == "A") })
	if strings.Contains(options, "+short") {
		for _, a := range all {
			fmt.Fprintln(c.Stdout, a)
		}
		return 0
	}
	status := "NOERROR"
	if !known {
		status = "NXDOMAIN"
	}
	name := strings.TrimSuffix(names[0], ".") + "."
	fmt.Fprintf(c.Stdout, "\n; <<>> DiG 9.18.28 <<>> %s\n;; global options: +cmd\n;; Got answer:\n;; ->>HEADER<<- opcode: QUERY, status: %s, id: 1\n;; flags: qr rd ra; QUERY: 1, ANSWER: %d, AUTHORITY: 0, ADDITIONAL: 0\n\n;; QUESTION SECTION:\n;%s\t\tIN\t%s\n",
		strings.Join(c.Args[1:], " "), status, len(all), name, kind)
	if len(all) > 0 {
		fmt.Fprint(c.Stdout, "\n;; ANSWER SECTION:\n")
		for _, a := range all {
			fmt.Fprintf(c.Stdout, "%s\t60\tIN\t%s\t%s\n", name, kind, a)
		}
	}
	fmt.Fprintf(c.Stdout, "\n;; SERVER: %s#53(%s) (UDP)\n;; WHEN: %s\n\n", resolver, resolver, m.world.Clock.Now().UTC().Format("Mon Jan 02 15:04:05 MST 2006"))
	return 0
}

func slicesWithout(list []string, words ...string) []string {
	var out []string
	for _, s := range list {
		keep := true
		for _, w := range words {
			keep = keep && !strings.EqualFold(s, w)
		}
		if keep {
			out = append(out, s)
		}
	}
	return out
}

func (m *Machine) nslookup(ctx context.Context, c *shell.Call) int {
	names, _ := operandsOf(c.Args[1:], "")
	if len(names) != 1 {
		return c.Fail("simulated nodes support nslookup NAME")
	}
	all, silent := m.resolve(ctx, names[0])
	if silent {
		fmt.Fprintf(c.Stdout, ";; communications error to %s#53: timed out\n;; no servers could be reached\n\n", resolver)
		return 1
	}
	fmt.Fprintf(c.Stdout, "Server:\t\t%s\nAddress:\t%s#53\n\n", resolver, resolver)
	if len(all) == 0 {
		fmt.Fprintf(c.Stdout, "** server can't find %s: NXDOMAIN\n\n", names[0])
		return 1
	}
	fmt.Fprintln(c.Stdout, "Non-authoritative answer:")
	for _, a := range all {
		fmt.Fprintf(c.Stdout, "Name:\t%s\nAddress: %s\n", names[0], a)
	}
	fmt.Fprintln(c.Stdout)
	return 0
}

// getent resolves hosts. The shell's own getent calls it for hosts that are not in /etc/hosts.
func (m *Machine) getent(ctx context.Context, c *shell.Call) int {
	status := 0
	for _, name := range c.Args[2:] {
		all, _ := m.resolve(ctx, name)
		if len(all) == 0 {
			status = 2
		}
		for i, a := range all {
			switch {
			case c.Args[1] == "hosts":
				fmt.Fprintf(c.Stdout, "%-15s %s\n", a, name)
			default:
				for j, kind := range []string{"STREAM", "DGRAM", "RAW"} {
					shown := ""
					if i == 0 && j == 0 {
						shown = name
					}
					fmt.Fprintln(c.Stdout, strings.TrimRight(fmt.Sprintf("%-15s %-6s %s", a, kind, shown), " "))
				}
			}
		}
	}
	return status
}

// ping sends ICMP echoes, which a host only answers if the network lets them through.
func (m *Machine) ping(ctx context.Context, c *shell.Call) int {
	count, host := 4, ""
	args := separated(c.Args[1:], "cwWisI")
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-c" && i+1 < len(args):
			i++
			if n, err := strconv.Atoi(args[i]); err == nil && n > 0 && n <= 100 {
				count = n
			}
		case (a == "-W" || a == "-w" || a == "-i" || a == "-s" || a == "-I") && i+1 < len(args):
			i++
		case !strings.HasPrefix(a, "-"):
			host = a
		}
	}
	if host == "" {
		fmt.Fprintln(c.Stderr, "ping: usage error: Destination address required")
		return 1
	}
	if m.world.Surroundings.Ping == nil {
		fmt.Fprintln(c.Stderr, "ping: connect: Network is unreachable")
		return 2
	}
	to, err := m.world.Surroundings.Ping(ctx, host)
	if !to.IsValid() {
		fmt.Fprintf(c.Stderr, "ping: %s: Name or service not known\n", host)
		return 2
	}
	fmt.Fprintf(c.Stdout, "PING %s (%s) 56(84) bytes of data.\n", host, to)
	received, began := 0, m.world.Clock.Now()
	for n := range count {
		if n > 0 && !m.wait(ctx, time.Second) {
			break
		}
		if err == nil {
			sent := m.world.Clock.Now()
			_, err = m.world.Surroundings.Ping(ctx, host)
			if err == nil {
				received++
				fmt.Fprintf(c.Stdout, "64 bytes from %s: icmp_seq=%d ttl=64 time=%.3f ms\n", to, n+1, float64(m.world.Clock.Since(sent).Microseconds())/1000)
			}
		}
	}
	fmt.Fprintf(c.Stdout, "\n--- %s ping statistics ---\n%d packets transmitted, %d received, %d%% packet loss, time %dms\n", host, count, received, (count-received)*100/count, m.world.Clock.Since(began).Milliseconds())
	if received == 0 {
		return 1
	}
	return 0
}

// nc supports only testing whether a TCP port can be reached.
func (m *Machine) nc(ctx context.Context, c *shell.Call) int {
	args, options := operandsOf(separated(c.Args[1:], "wi"), "wi")
	if len(args) != 2 || !strings.Contains(options, "z") {
		return c.Fail("simulated nodes support nc -z [-v] [-w SECONDS] HOST PORT")
	}
	port, err := strconv.Atoi(args[1])
	if err != nil || port < 1 || port > 65535 {
		fmt.Fprintf(c.Stderr, "Ncat: Invalid port number %q. QUITTING.\n", args[1])
		return 2
	}
	if strings.Contains(options, "v") {
		fmt.Fprintln(c.Stderr, "Ncat: Version 7.93 ( https://nmap.org/ncat )")
	}
	err = errors.New("Network is unreachable") //nolint:staticcheck // the C library's text
	if m.world.Surroundings.Connect != nil {
		err = m.world.Surroundings.Connect(ctx, args[0], port)
	}
	text := ""
	de, isDNS := errors.AsType[*net.DNSError](err)
	ne, isNet := errors.AsType[net.Error](err)
	switch {
	case err == nil:
		if strings.Contains(options, "v") {
			fmt.Fprintf(c.Stderr, "Ncat: Connected to %s:%d.\nNcat: 0 bytes sent, 0 bytes received in 0.01 seconds.\n", args[0], port)
		}
		return 0
	case isDNS && !de.IsTimeout:
		fmt.Fprintf(c.Stderr, "Ncat: Could not resolve hostname %q: Name or service not known. QUITTING.\n", args[0])
		return 2
	case isNet && ne.Timeout():
		text = "TIMEOUT"
	case errors.Is(err, syscall.ECONNREFUSED):
		text = "Connection refused"
	default:
		text = err.Error()
	}
	fmt.Fprintf(c.Stderr, "Ncat: %s.\n", text)
	return 1
}
