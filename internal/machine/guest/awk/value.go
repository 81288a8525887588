package awk

import (
	"math"
	"strconv"
	"strings"
)

// A value is a text, a number, or input that looks like a number and is both.
type value struct {
	kind valueKind
	s    string
	n    float64
}

type valueKind uint8

const (
	unset   valueKind = iota // "" and 0
	number                   // n
	text                     // s
	numeric                  // s from outside, which looks like the number n
)

func num(n float64) value { return value{kind: number, n: n} }
func str(s string) value  { return value{kind: text, s: s} }

func truth(b bool) value {
	if b {
		return num(1)
	}
	return num(0)
}

// fromInput returns a field or an operand as a value: numeric if it looks like a number.
func fromInput(s string) value {
	t := strings.Trim(s, " \t\n\r")
	if p := numberPrefix(t); p != "" && len(p) == len(t) {
		n, _ := strconv.ParseFloat(p, 64) // out of range is infinity
		return value{kind: numeric, s: s, n: n}
	}
	return str(s)
}

// numberPrefix returns the decimal number at the start of s.
func numberPrefix(s string) string {
	i := 0
	digits := func() int {
		from := i
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return i - from
	}
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		i++
	}
	n := digits()
	if i < len(s) && s[i] == '.' {
		i++
		n += digits()
	}
	if n == 0 {
		return ""
	}
	end := i
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if digits() > 0 {
			end = i
		}
	}
	return s[:end]
}

func (v value) number() float64 {
	if v.kind != text {
		return v.n
	}
	n, _ := strconv.ParseFloat(numberPrefix(strings.TrimLeft(v.s, " \t\n\r")), 64) // anything else is 0
	return n
}

func (v value) isTrue() bool {
	switch v.kind {
	case number, numeric:
		return v.n != 0
	}
	return v.s != ""
}

// string returns the value as text; format is CONVFMT or OFMT.
func (v value) string(format string) string {
	if v.kind != number {
		return v.s
	}
	if v.n == math.Trunc(v.n) && !math.IsInf(v.n, 0) {
		return strconv.FormatFloat(v.n+0, 'f', 0, 64) // prints 0 for -0, too
	}
	return sprintf(format, []value{v}, "%.6g")
}

// compare orders two values: as numbers if both are numbers, otherwise as texts.
func compare(a, b value, format string) int {
	if a.kind != text && b.kind != text {
		switch {
		case a.n < b.n:
			return -1
		case a.n > b.n:
			return 1
		}
		return 0
	}
	return strings.Compare(a.string(format), b.string(format))
}

// sprintf formats like AWK's printf. A missing value counts as empty.
func sprintf(format string, args []value, convfmt string) string {
	var out strings.Builder
	next := func() (v value) {
		if len(args) > 0 {
			v, args = args[0], args[1:]
		}
		return v
	}
	for i := 0; i < len(format) && out.Len() < maxText; i++ {
		if format[i] != '%' || i+1 == len(format) {
			out.WriteByte(format[i])
			continue
		}
		spec := "%"
		j := i + 1
		for j < len(format) && strings.IndexByte("-+ #0", format[j]) >= 0 && len(spec) < 8 {
			spec += format[j : j+1]
			j++
		}
		size := func() { // for a width or a precision
			n := 0
			if j < len(format) && format[j] == '*' {
				n = int(max(-maxWidth, min(maxWidth, next().number())))
				j++
			} else {
				for j < len(format) && format[j] >= '0' && format[j] <= '9' {
					n = min(maxWidth, n*10+int(format[j]-'0'))
					j++
				}
			}
			spec += strconv.Itoa(n)
		}
		if j < len(format) && (format[j] == '*' || format[j] >= '1' && format[j] <= '9') {
			size()
		}
		if j < len(format) && format[j] == '.' {
			spec += "."
			j++
			size()
		}
		for j < len(format) && strings.IndexByte("hlL", format[j]) >= 0 {
			j++
		}
		if j >= len(format) {
			out.WriteString(format[i:])
			break
		}
		out.WriteString(convert(spec, format[j], next, convfmt))
		i = j
	}
	return out.String()
}
