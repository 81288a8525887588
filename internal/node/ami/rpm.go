package ami

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// queried matches a tag, with its width, or an escaped character of rpm's query formats.
var queried = regexp.MustCompile(`%(-?[0-9]*)\{([A-Za-z0-9_:]+)\}|\\(.)`)

// query returns what rpm -q prints about a package. version is not empty if it is not that of the image.
// https://rpm.org/docs/latest/manual/queryformat.html
func (m *Machine) query(name, version, format string) (string, error) {
	p, known := m.imagePackages()[name]
	if name == agentPackage && version != "" {
		p = imagePackage{version, agentRelease, "(none)", m.architecture(), "Manage EC2 Instances using SSM APIs"}
		known = true
	}
	if format == "" {
		if !known {
			return name + "\n", nil
		}
		format = "%{NVRA}\\n"
	}
	full := name + "-" + p.version + "-" + p.release
	tags := map[string]string{
		"NAME": name, "VERSION": p.version, "RELEASE": p.release, "EPOCH": p.epoch, "ARCH": p.arch, "SUMMARY": p.summary, "VENDOR": "Amazon Linux", "GROUP": "Unspecified", "URL": "(none)",
		"INSTALLTIME": strconv.FormatInt(m.In.Image.Created.Unix(), 10), "SOURCERPM": full + ".src.rpm", "NVR": full, "NVRA": full + "." + p.arch, "EVR": p.version + "-" + p.release,
	}
	if !known {
		for tag := range tags {
			if tag != "NAME" {
				tags[tag] = "(none)"
			}
		}
		tags["NVR"], tags["NVRA"] = name, name
	}
	var failed error
	return queried.ReplaceAllStringFunc(format, func(part string) string {
		found := queried.FindStringSubmatch(part)
		if found[3] != "" {
			return cmp.Or(map[string]string{"n": "\n", "t": "\t"}[found[3]], found[3])
		}
		value, ok := tags[strings.ToUpper(strings.TrimPrefix(strings.ToUpper(found[2]), "RPMTAG_"))]
		if !ok {
			failed = fmt.Errorf("incorrect format: unknown tag: %q", found[2])
		}
		width, _ := strconv.Atoi(found[1]) // without one it is 0
		return fmt.Sprintf("%*s", min(max(width, -maxWidth), maxWidth), value)
	}), failed
}

const maxWidth = 1000 // of a tag

// rpm answers -q, -qa, -i and -e.
func (m *Machine) rpm(ctx context.Context, c *shell.Call) int {
	have := m.installed(c.FS)
	var flags, format string
	var names []string
	old := false
	for i := 1; i < len(c.Args); i++ {
		switch a := c.Args[i]; {
		case (a == "--queryformat" || a == "--qf") && i+1 < len(c.Args):
			i++
			format = c.Args[i]
		case strings.HasPrefix(a, "--queryformat=") || strings.HasPrefix(a, "--qf="):
			_, format, _ = strings.Cut(a, "=")
		case a == "--oldpackage" || a == "--force":
			old = true
		case strings.HasPrefix(a, "--"):
			flags += map[string]string{"--query": "q", "--all": "a", "--install": "i", "--upgrade": "U", "--erase": "e", "--import": "I"}[a]
		case strings.HasPrefix(a, "-"):
			flags += a[1:]
		default:
			names = append(names, a)
		}
	}
	switch {
	case strings.ContainsAny(flags, "I"): // imports a key
		return 0
	case strings.Contains(flags, "q"):
		if strings.Contains(flags, "a") {
			names = have.sorted()
		}
		status := 0
		for _, n := range names {
			if !have.has(n) {
				fmt.Fprintf(c.Stdout, "package %s is not installed\n", n)
				status = 1
				continue
			}
			text, err := m.query(n, have[n], format)
			if err != nil {
				fmt.Fprintf(c.Stderr, "error: %s\n", err)
				return 1
			}
			if _, err := io.WriteString(c.Stdout, text); err != nil {
				return 1 // the reader is gone
			}
		}
		return status
	case strings.Contains(flags, "e") && len(names) > 0:
		for _, n := range names {
			if !have.has(n) {
				fmt.Fprintf(c.Stderr, "error: package %s is not installed\n", n)
				return 1
			}
		}
		return (&transaction{m: m, c: c, quiet: true}).remove(names)
	case strings.ContainsAny(flags, "iUF") && len(names) > 0:
		for _, n := range names {
			if strings.Contains(n, "://") {
				if err := m.fetch(ctx, n); err != nil {
					fmt.Fprintf(c.Stderr, "curl: %s\nerror: skipping %s - transfer failed\n", err, n)
					return 1
				}
			} else if _, err := c.FS.Stat(c.Path(n)); err != nil {
				fmt.Fprintf(c.Stderr, "error: open of %s failed: No such file or directory\n", n)
				return 1
			}
		}
		var others []string
		for _, n := range names {
			if _, ok := agentArgument(n); !ok {
				others = append(others, n)
			} else if status := m.upgradeAgent(c, n, old); status != 0 {
				return status
			}
		}
		if others == nil {
			return 0
		}
		t := &transaction{m: m, c: c, yes: true, quiet: true}
		for i, n := range others {
			others[i] = packageName(n) // they have been downloaded
		}
		return t.install(ctx, others, false)
	}
	fmt.Fprintf(c.Stderr, "rpm: %s is not supported on simulated nodes\n", strings.Join(c.Args[1:], " "))
	return 1
}
