package awk_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/machine/guest/awk"
	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

const input = "root:x:0:0:root:/root:/bin/bash\nec2-user:x:1000:1000:EC2 Default User:/home/ec2-user:/bin/bash\nnobody:x:99:99:Nobody:/:/sbin/nologin\n"

var table = []struct {
	name, program, input, want string
	assign                     [][2]string
	// deviates says why an awk other than GNU's, which the images have, prints something else.
	deviates string
}{
	{name: "a field", program: `{print $1}`, input: "a b\n c  d\n\n", want: "a\nc\n\n"},
	{name: "the last field", program: `{print $NF, NF}`, input: "a b c\nd\n", want: "c 3\nd 1\n"},
	{name: "a separator", program: `{print $1 " " $3}`, input: input, assign: [][2]string{{"FS", ":"}}, want: "root 0\nec2-user 1000\nnobody 99\n"},
	{name: "a separator that is a regular expression", program: `BEGIN{FS="[:=]+"} {print $2}`, input: "a:=b\n", want: "b\n"},
	{name: "a tab", program: `{print $2}`, input: "a b\tc\n", assign: [][2]string{{"FS", `\t`}}, want: "c\n"},
	{name: "a pattern", program: `/^ec2/ {print $5}`, input: input, assign: [][2]string{{"FS", ":"}}, want: "EC2 Default User\n"},
	{name: "a pattern alone", program: `NR==2`, input: "a\nb\nc\n", want: "b\n"},
	{name: "a match of a field", program: `$3 >= 99 && $1 !~ /^no/ {print $1}`, input: input, assign: [][2]string{{"FS", ":"}}, want: "ec2-user\n"},
	{name: "a range", program: `/b/,/c/`, input: "a\nb\nx\nc\nd\n", want: "b\nx\nc\n"},
	{name: "BEGIN and END", program: `BEGIN {n=10} {n+=$1} END {print n, NR}`, input: "1\n2\n", want: "13 2\n"},
	{name: "BEGIN alone reads nothing", program: `BEGIN {printf "%d%s", 3.9, "x"}`, input: "a\n", want: "3x"},
	{name: "memory in kilobytes", program: `/MemTotal/ {print int($2/1024)}`, input: "MemTotal:       8388608 kB\nMemFree: 1 kB\n", want: "8192\n"},
	{name: "printf", program: `{printf("%-5s|%5.2f|%03d|%x|%c|%%\n", $1, $2, $2, $2, $1)}`, input: "ab 10.456\n", want: "ab   |10.46|010|a|a|%\n"},
	{name: "an asterisk", program: `BEGIN {printf "%*d|%.*f\n", 4, 7, 1, 2.55}`, want: "   7|2.5\n"},
	{name: "arrays", program: `{c[$1]++} END {for (k in c) n++; print n, c["a"], ("z" in c)}`, input: "a\nb\na\n", want: "2 2 0\n"},
	{name: "unique lines", program: `!seen[$0]++`, input: "a\nb\na\n", want: "a\nb\n"},
	{name: "two indexes", program: `BEGIN {a[1,2]=3; for (k in a) {split(k, p, SUBSEP); print p[1] p[2]}; if ((1,2) in a) print "in"}`, want: "12\nin\n"},
	{name: "delete", program: `BEGIN {a["x"]; a["y"]; delete a["x"]; print length(a)}`, want: "1\n"},
	{name: "substitutions", program: `{gsub(/o/, "[&]"); sub("r", "R"); print}`, input: "root oo\n", want: "R[o][o]t [o][o]\n"},
	{name: "a substitution in a field", program: `{gsub(/,/, "", $2); print $2; print}`, input: "a 1,2,3 c\n", want: "123\na 123 c\n"},
	{name: "an ampersand", program: `{sub(/a/, "\\&"); print}`, input: "cat\n", want: "c&t\n"},
	{name: "functions of text", program: `BEGIN {print length("héllo"), substr("hello", 2, 3), substr("hello", 0, 2), index("hello", "l"), toupper("aB"), tolower("aB"), split("a:b:c", p, ":"), p[3]}`, deviates: "mawk counts bytes, and a substr from 0 otherwise", want: "5 ell h 3 AB ab 3 c\n"},
	{name: "match", program: `{if (match($0, /[0-9]+/)) print RSTART, RLENGTH, substr($0, RSTART, RLENGTH)}`, input: "ab123c\n", want: "3 3 123\n"},
	{name: "a loop", program: `BEGIN {for (i = 0; i < 5; i++) {if (i == 1) continue; if (i == 4) break; printf "%d ", i}; while (i-- > 2) print i; do {i++} while (i < 0); print i}`, want: "0 2 3 3\n2\n2\n"},
	{name: "next and exit", program: `NR==1 {next} {print} NR==2 {exit 3} END {print "end"}`, input: "a\nb\nc\n", want: "b\nend\n"},
	{name: "if and else", program: `{if ($1 > 1) print "more"; else if ($1 == 1) print "one"; else print "less"}`, input: "1\n2\n0\n", want: "one\nmore\nless\n"},
	{name: "numbers that are texts", program: `{print ($1 < $2), ($1"" < $2"")}`, input: "9 10\n", want: "1 0\n"},
	{name: "precedence", program: `BEGIN {print 1+2*3^2, -2^2, 7%4, 1 " " 2+3, !0, 1-1-1, 2^3^2, 1==1?"y":"n"}`, want: "19 -4 3 1 5 1 -1 512 y\n"},
	{name: "numbers as texts", program: `BEGIN {print 0.1+0.2, 1e6, 1e20, 100000*100000, 3.0, 1/3}`, deviates: "mawk has integers of 32 bits", want: "0.3 1000000 100000000000000000000 10000000000 3 0.333333\n"},
	{name: "assignments", program: `BEGIN {a=b=2; a*=3; b-=1; a/=2; b^=2; c[1]+=5; x = "a" "b"; print a, b, c[1], x, a++ + ++a}`, want: "3 1 5 ab 8\n"},
	{name: "a changed field", program: `{$2="x"; print; $5="e"; print; NF=2; print}`, input: "a b c\n", want: "a x c\na x c  e\na x\n"},
	{name: "OFS", program: `BEGIN {OFS="-"} {$1=$1; print $0; print $1, $2}`, input: "a b\n", want: "a-b\na-b\n"},
	{name: "paragraphs", program: `BEGIN {RS=""; FS="\n"} {print $1 "+" $2}`, input: "a\nb\n\n\nc\nd\n", want: "a+b\nc+d\n"},
	{name: "records", program: `BEGIN {RS=";"} {print NR ":" $0}`, input: "a;b;c", want: "1:a\n2:b\n3:c\n"},
	{name: "variables from outside", program: `{print v + 1, w}`, input: "x\n", assign: [][2]string{{"v", "2"}, {"w", `a\nb`}}, want: "3 a\nb\n"},
	{name: "a regular expression that is a text", program: `BEGIN {r = "^a.c$"} $0 ~ r {print "yes " $0}`, input: "abc\nabcd\n", want: "yes abc\n"},
	{name: "classes", program: `/^[[:space:]]*[^]a]/ {print}`, input: "  b\n ]\n  ab\n", want: "  b\n ]\n  ab\n"},
	{name: "semicolons and newlines", program: "# names\nBEGIN { x = 1;\n\n y = 2 } ;\nEND { print x,\n  y }\n", input: "", want: "1 2\n"},
	{name: "a line broken in two", program: "BEGIN { print 1 \\\n + 2; print 3 &&\n 0 }", want: "3\n0\n"},
	{name: "a missing field", program: `{print $5 "|" $5+1 "|" (x == 0) (x == "")}`, input: "a\n", want: "|1|11\n"},
	{name: "print in parentheses", program: `BEGIN {print(1)(2); print (1, 2); print (3) > "/dev/stdout"; x = 5; print (x > 4)}`, want: "12\n1 2\n3\n1\n"},
	{name: "the longest match", program: `{sub(/a|ab/, "X"); print}`, input: "abc\n", want: "Xc\n"},
	{name: "a file system's use", program: `NR>1 {gsub("%", "", $5); if ($5+0 > 80) print $6, $5}`, input: "Filesystem Size Used Avail Use% Mounted\n/dev/a 1 1 1 91% /\n/dev/b 1 1 1 5% /b\n", want: "/ 91\n"},
	{name: "a division", program: `{print $2/2/5}`, input: "a 100\n", want: "10\n"},
}

func run(t testing.TB, program, input string, assign [][2]string, operands ...string) (string, int, error) {
	t.Helper()
	p, err := awk.Parse(program)
	if err != nil {
		return "", 2, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	status, err := p.Run(ctx, awk.Config{
		Assign: assign, Operands: operands, Environ: []string{"HOME=/root"}, Stdout: &out, Stderr: &out,
		Read: func(name string) ([]byte, error) {
			if name == "-" {
				return []byte(input), nil
			}
			return nil, fs.ErrNotExist
		},
		Create: func(string, bool) (io.WriteCloser, error) { return nil, fs.ErrPermission },
	})
	return out.String(), status, err
}

func TestPrograms(t *testing.T) {
	for _, tc := range table {
		t.Run(tc.name, func(t *testing.T) {
			out, _, err := run(t, tc.program, tc.input, tc.assign)
			if diff := cmp.Diff(tc.want, out); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

// The same table with the awk of this machine, if it has one.
func TestProgramsAreConfirmed(t *testing.T) {
	path, err := exec.LookPath("awk")
	if err != nil {
		needs.Missing(t, "there is no awk here to compare with")
	}
	version, _ := exec.CommandContext(t.Context(), path, "--version").Output() // mawk knows no --version
	gnu := strings.HasPrefix(string(version), "GNU Awk")
	for _, tc := range table {
		if tc.deviates != "" && !gnu {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			var args []string
			for _, a := range tc.assign {
				args = append(args, "-v", a[0]+"="+a[1])
			}
			cmd := exec.CommandContext(t.Context(), path, append(args, tc.program)...)
			cmd.Env = []string{"LC_ALL=C.UTF-8"}
			cmd.Stdin = strings.NewReader(tc.input)
			out, err := cmd.Output()
			if ee := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ee) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(out)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestExitStatus(t *testing.T) {
	if _, status, err := run(t, `BEGIN {exit 7} END {print "not reached"}`, "", nil); status != 7 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	out, status, err := run(t, `{print x} END {exit}`, "a\n", nil, "x=1", "-", "x=2")
	if out != "1\n" || status != 0 || err != nil {
		t.Errorf("%q, %d, %v", out, status, err)
	}
}

func TestRefused(t *testing.T) {
	for program, want := range map[string]string{
		`{"date" | getline x}`:                            "a pipe to a command is not supported on simulated nodes",
		`{getline line < "f"}`:                            "getline is not supported on simulated nodes",
		`{print | "sort"}`:                                "a pipe to a command is not supported on simulated nodes",
		`BEGIN {system("reboot")}`:                        "system() is not supported on simulated nodes",
		`function f(x) {return x}`:                        "a user-defined function is not supported on simulated nodes",
		`{print strftime("%F")}`:                          "strftime() is not supported on simulated nodes",
		`{print $(}`:                                      `syntax error at source line 1 near "}"`,
		"BEGIN {\n x = = 1 }":                             `syntax error at source line 2 near "="`,
		`{print "a}`:                                      `syntax error at source line 1 near "\"a}"`,
		`/[/`:                                             `syntax error at source line 1 near "/[/"`,
		`BEGIN {print 1/0}`:                               "division by zero",
		`BEGIN {while (1) x++}`:                           "the program ran too long",
		`BEGIN {x = "xx"; while (1) x = x x}`:             "out of memory",
		`BEGIN {$100000000 = 1}`:                          "the field $100000000 is not supported on simulated nodes",
		`BEGIN {printf "%s"; a[1] = 2; print a}`:          "the array a as a value is not supported on simulated nodes",
		"BEGIN {" + strings.Repeat("(", 300):              "out of memory",
		"BEGIN {x = 1" + strings.Repeat("+1", 6000) + "}": "out of memory",
	} {
		if _, status, err := run(t, program, "", nil); err == nil || err.Error() != want || status != 2 {
			t.Errorf("%.60s: %v", program, err)
		}
	}
}

func FuzzRun(f *testing.F) {
	for _, tc := range table {
		f.Add(tc.program, tc.input)
	}
	f.Fuzz(func(t *testing.T, program, input string) {
		p, err := awk.Parse(program)
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		late := time.AfterFunc(time.Minute, func() { panic("a program that does not end: " + program) })
		defer late.Stop()
		_, _ = p.Run(ctx, awk.Config{
			Stdout: io.Discard, Stderr: io.Discard, Read: func(string) ([]byte, error) { return []byte(input), nil },
			Create: func(string, bool) (io.WriteCloser, error) { return nil, fs.ErrPermission },
		})
	})
}
