package cfnbootstrap

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// An option of a program takes a value unless flag is true. All names are without dashes.
type option struct {
	long, short string
	flag        bool
}

// credentialOptions are options of all programs. The proxies are accepted and ignored.
var credentialOptions = []option{
	{long: "credential-file", short: "f"}, {long: "role"}, {long: "access-key"}, {long: "secret-key"}, {long: "http-proxy"}, {long: "https-proxy"}, {long: "region"}, {long: "help", short: "h", flag: true},
}

var (
	signalOptions = append(slices.Clone(credentialOptions),
		option{long: "success", short: "s"}, option{long: "id", short: "i"}, option{long: "exit-code", short: "e"}, option{long: "reason", short: "r"},
		option{long: "data", short: "d"}, option{long: "stack"}, option{long: "resource"}, option{long: "url"})
	metadataOptions = append(slices.Clone(credentialOptions),
		option{long: "stack", short: "s"}, option{long: "resource", short: "r"}, option{long: "key", short: "k"}, option{long: "url", short: "u"},
		option{long: "verbose", short: "v", flag: true})
)

// A usageError is optparse's error, which ends a program with status 2.
type usageError struct{ program, text string }

func (e *usageError) Error() string {
	return fmt.Sprintf("Usage: %s [options]\n\n%[1]s: error: %s", e.program, e.text)
}

// parse reads a command line as Python's optparse does: long options may be abbreviated, and the value of a short
// option may follow without a space.
func parse(args []string, known []option) (options map[string]string, rest []string, err error) {
	program := path.Base(args[0])
	fail := func(format string, a ...any) (map[string]string, []string, error) {
		return nil, nil, &usageError{program, fmt.Sprintf(format, a...)}
	}
	options = map[string]string{}
	for args = args[1:]; len(args) > 0; {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			return options, append(rest, args...), nil
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			rest = append(rest, arg)
			continue
		}
		var found []option
		var shown, value string
		var given bool
		if name, long := strings.CutPrefix(arg, "--"); long {
			name, value, given = strings.Cut(name, "=")
			shown = "--" + name
			for _, o := range known {
				if o.long == name {
					found = []option{o}
					break
				}
				if strings.HasPrefix(o.long, name) {
					found = append(found, o)
				}
			}
		} else {
			shown, value = arg[:2], arg[2:]
			given = value != ""
			if i := slices.IndexFunc(known, func(o option) bool { return o.short == arg[1:2] }); i >= 0 {
				found = known[i : i+1]
			}
		}
		switch {
		case len(found) == 0:
			return fail("no such option: %s", shown)
		case len(found) > 1:
			return fail("ambiguous option: %s", shown)
		case found[0].flag && given && strings.HasPrefix(arg, "--"):
			return fail("%s option does not take a value", shown)
		case found[0].flag:
			options[found[0].long] = "true"
			if given { // combined short options
				args = append([]string{"-" + value}, args...)
			}
			continue
		case !given && len(args) == 0:
			return fail("%s option requires 1 argument", shown)
		case !given:
			value, args = args[0], args[1:]
		}
		options[found[0].long] = value
	}
	return options, rest, nil
}
