package awk

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// convert formats one value by a conversion. spec is % with flags, width and precision.
func convert(spec string, verb byte, next func() value, convfmt string) string {
	switch verb {
	case '%':
		return "%"
	case 'd', 'i':
		return whole(spec, next().number())
	case 'o', 'x', 'X', 'u':
		n := next().number()
		if verb == 'u' {
			return whole(spec, n)
		}
		return fmt.Sprintf(spec+string(rune(verb)), uint64(max(0, min(math.Trunc(n), 1<<63))))
	case 'e', 'E', 'f', 'F', 'g', 'G':
		n := next().number()
		switch {
		case math.IsNaN(n):
			return "nan"
		case math.IsInf(n, 0):
			return infinite(n)
		}
		return fmt.Sprintf(precise(spec)+string(rune(verb)), n)
	case 'c':
		v := next()
		if v.kind == number || v.kind == numeric {
			r := rune(0)
			if v.n >= 0 && v.n <= utf8.MaxRune {
				r = rune(v.n)
			}
			return fmt.Sprintf(spec+"s", string(r))
		}
		for _, r := range v.s {
			return fmt.Sprintf(spec+"s", string(r))
		}
		return fmt.Sprintf(spec+"s", "")
	case 's':
		return fmt.Sprintf(spec+"s", next().string(convfmt))
	}
	return spec + string(rune(verb))
}

func infinite(n float64) string {
	if n < 0 {
		return "-inf"
	}
	return "inf"
}

func whole(spec string, n float64) string {
	switch {
	case math.IsNaN(n):
		return "nan"
	case math.IsInf(n, 0):
		return infinite(n)
	}
	return fmt.Sprintf(spec+"d", int64(max(math.MinInt64, min(math.Trunc(n), 1<<62*1.999))))
}

// precise adds C's default precision of six digits, where Go would use as many as needed.
func precise(spec string) string {
	for _, c := range spec {
		if c == '.' {
			return spec
		}
	}
	return spec + ".6"
}
