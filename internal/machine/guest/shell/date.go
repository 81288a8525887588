package shell

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// date prints the time given by -d, or the current time, in UTC as on EC2.
func date(_ context.Context, c *Call) int {
	for i, a := range c.Args {
		if v, ok := strings.CutPrefix(a, "-I"); ok && v != "" { // its argument is attached to it
			c.Args = slices.Clone(c.Args)
			c.Args[i] = "--iso-8601=" + v
		}
	}
	f := c.flags()
	f.BoolP("utc", "u", false, "")
	iso := f.StringP("iso-8601", "I", "", "")
	f.Lookup("iso-8601").NoOptDefVal = "date"
	mail := f.BoolP("rfc-email", "R", false, "")
	rfc := f.String("rfc-3339", "", "")
	at := f.StringP("date", "d", "", "")
	set := f.StringP("set", "s", "", "")
	reference := f.StringP("reference", "r", "", "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	if *set != "" || len(args) > 0 && !strings.HasPrefix(args[0], "+") {
		return c.Fail("cannot set date: Operation not permitted")
	}
	now := time.Now().UTC()
	if *reference != "" {
		i, err := c.FS.Stat(c.Path(*reference))
		if err != nil {
			return c.Fail("%s: %s", *reference, reason(err))
		}
		now = i.ModTime().UTC()
	}
	if f.Changed("date") {
		var ok bool
		if now, ok = parseDate(*at, now); !ok {
			return c.Fail("invalid date '%s'", *at)
		}
	}
	format := "%a %b %e %H:%M:%S UTC %Y"
	switch {
	case len(args) > 0:
		format = args[0][1:]
	case *mail:
		format = "%a, %d %b %Y %H:%M:%S %z"
	case f.Changed("rfc-3339") || f.Changed("iso-8601"):
		which, sep := *rfc, " "
		if which == "" {
			which, sep = *iso, "T"
		}
		format, ok = map[string]string{
			"date": "%F", "hours": "%F" + sep + "%H%:z", "minutes": "%F" + sep + "%H:%M%:z", "seconds": "%F" + sep + "%T%:z", "ns": "%F" + sep + "%T.%N%:z",
		}[which]
		if !ok {
			return c.Fail("invalid argument '%s' for '--iso-8601'", which)
		}
		if sep == "T" {
			format = strings.Replace(format, ".%N", ",%N", 1)
		}
	}
	fmt.Fprintln(c.Stdout, strftime(format, now))
	return 0
}

// strftime formats a time as date does. Anything that is not a conversion is unchanged.
func strftime(format string, t time.Time) string {
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			out.WriteByte(format[i])
			continue
		}
		i++
		pad := byte(0)
		for strings.IndexByte("-_0^", format[i]) >= 0 && i+1 < len(format) {
			pad = format[i]
			i++
		}
		colons := 0
		for format[i] == ':' && i+1 < len(format) {
			colons++
			i++
		}
		width := ""
		for format[i] >= '0' && format[i] <= '9' && i+1 < len(format) && len(width) < 3 {
			width += format[i : i+1]
			i++
		}
		text, ok := conversion(format[i], t, colons)
		if !ok {
			text = "%" + format[i:i+1]
		}
		if n, _ := strconv.Atoi(width); format[i] == 'N' && n > 0 && n < 9 {
			text = text[:n]
		}
		switch pad {
		case '-':
			if text = strings.TrimLeft(text, "0 "); text == "" {
				text = "0"
			}
		case '_':
			trimmed := strings.TrimLeft(text, "0")
			if trimmed == "" {
				trimmed = "0"
			}
			text = strings.Repeat(" ", len(text)-len(trimmed)) + trimmed
		case '0':
			text = strings.ReplaceAll(text, " ", "0")
		case '^':
			text = strings.ToUpper(text)
		}
		out.WriteString(text)
	}
	return out.String()
}

// conversions are those that Go's layouts can express.
var conversions = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'h': "Jan", 'c': "Mon Jan _2 15:04:05 2006", 'd': "02", 'D': "01/02/06", 'e': "_2", 'F': "2006-01-02",
	'H': "15", 'I': "03", 'j': "002", 'm': "01", 'M': "04", 'N': "000000000", 'p': "PM", 'P': "pm", 'r': "03:04:05 PM", 'R': "15:04", 'S': "05", 'T': "15:04:05",
	'x': "01/02/06", 'X': "15:04:05", 'y': "06", 'Y': "2006",
}

func conversion(letter byte, t time.Time, colons int) (string, bool) {
	switch letter {
	case '%':
		return "%", true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case 'N':
		return fmt.Sprintf("%09d", t.Nanosecond()), true
	case 's':
		return strconv.FormatInt(t.Unix(), 10), true
	case 'k':
		return fmt.Sprintf("%2d", t.Hour()), true
	case 'l':
		return fmt.Sprintf("%2d", (t.Hour()+11)%12+1), true
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100), true
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1), true
	case 'w':
		return strconv.Itoa(int(t.Weekday())), true
	case 'q':
		return strconv.Itoa((int(t.Month()) + 2) / 3), true
	case 'V':
		_, week := t.ISOWeek()
		return fmt.Sprintf("%02d", week), true
	case 'G':
		year, _ := t.ISOWeek()
		return strconv.Itoa(year), true
	case 'U':
		return fmt.Sprintf("%02d", (t.YearDay()+6-int(t.Weekday()))/7), true
	case 'W':
		return fmt.Sprintf("%02d", (t.YearDay()+6-(int(t.Weekday())+6)%7)/7), true
	case 'z':
		return [...]string{"+0000", "+00:00", "+00:00:00", "+00"}[min(colons, 3)], true
	case 'Z':
		return "UTC", true
	}
	layout, ok := conversions[letter]
	return t.Format(layout), ok
}

// dateLayouts are the time formats that -d accepts, before anything relative.
var dateLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 MST", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02",
	"20060102", "01/02/2006", time.RFC1123Z, time.RFC1123, "Mon Jan _2 15:04:05 MST 2006", "Jan 2 2006", "2 Jan 2006", "15:04:05", "15:04",
}

// parseDate reads the argument of -d: a moment, and what is added to it or subtracted from it.
func parseDate(text string, now time.Time) (time.Time, bool) {
	words := strings.Fields(text)
	if len(words) > 50 {
		return now, false
	}
	// Find the longest prefix that is a moment.
	t := now
	for n := min(len(words), 6); n > 0; n-- {
		if m, ok := parseMoment(strings.Join(words[:n], " "), now); ok {
			t, words = m, words[n:]
			break
		}
	}
	if text == "" {
		return now.Truncate(24 * time.Hour), true
	}
	return relative(t, words)
}

func parseMoment(s string, now time.Time) (time.Time, bool) {
	if n, ok := strings.CutPrefix(s, "@"); ok {
		f, err := strconv.ParseFloat(n, 64)
		return time.UnixMilli(int64(f * 1000)).UTC(), err == nil && f > -1e11 && f < 1e12
	}
	for _, l := range dateLayouts {
		t, err := time.Parse(l, s)
		if err != nil {
			continue
		}
		if strings.HasPrefix(l, "15") {
			t = now.Truncate(24 * time.Hour).Add(time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second)
		}
		return t.UTC(), true
	}
	return now, false
}

// relative adds "2 days ago", "+1 hour", "next week", "yesterday" to a time.
func relative(t time.Time, words []string) (time.Time, bool) {
	n, counted := 1, false
	for i := 0; i < len(words); i++ {
		w := strings.ToLower(words[i])
		switch w {
		case "now", "today":
			continue
		case "yesterday":
			t = t.AddDate(0, 0, -1)
			continue
		case "tomorrow":
			t = t.AddDate(0, 0, 1)
			continue
		case "midnight":
			t = t.Truncate(24 * time.Hour)
			continue
		case "utc", "z":
			continue
		case "next":
			n, counted = 1, true
			continue
		case "last":
			n, counted = -1, true
			continue
		case "+", "-":
			if i+1 == len(words) {
				return t, false
			}
			i++
			w += strings.ToLower(words[i])
		}
		digits := strings.TrimRight(w, "abcdefghijklmnopqrstuvwxyz")
		unit := w[len(digits):]
		if digits != "" {
			var err error
			if n, err = strconv.Atoi(digits); err != nil || counted || n > 1e6 || n < -1e6 {
				return t, false
			}
			counted = true
			if unit == "" {
				continue
			}
		}
		sign := 1
		if i+1 < len(words) && strings.EqualFold(words[i+1], "ago") {
			sign = -1
			i++
		}
		next, ok := shift(t, sign*n, strings.TrimSuffix(unit, "s"))
		if !ok {
			return t, false
		}
		t, n, counted = next, 1, false
	}
	return t, !counted
}

func shift(t time.Time, n int, unit string) (time.Time, bool) {
	switch unit {
	case "sec", "second":
		return t.Add(time.Duration(n) * time.Second), true
	case "min", "minute":
		return t.Add(time.Duration(n) * time.Minute), true
	case "hour":
		return t.Add(time.Duration(n) * time.Hour), true
	case "day":
		return t.AddDate(0, 0, n), true
	case "week":
		return t.AddDate(0, 0, 7*n), true
	case "fortnight":
		return t.AddDate(0, 0, 14*n), true
	case "month":
		return t.AddDate(0, n, 0), true
	case "year":
		return t.AddDate(n, 0, 0), true
	}
	return t, false
}
