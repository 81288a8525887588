// Package schedule parses the schedule expressions of EventBridge and Systems Manager, rate(…) and cron(…), and computes
// when they are due. It is pure: the caller provides the time.
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-scheduled-rule-pattern.html
package schedule

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrInvalid is returned by Parse.
var ErrInvalid = errors.New("invalid schedule expression")

// A Schedule is a parsed expression.
type Schedule struct {
	every time.Duration // for rate
	cron  *cron
}

// Parse parses an expression.
func Parse(text string) (*Schedule, error) {
	inside, ok := strings.CutSuffix(text, ")")
	if !ok {
		return nil, ErrInvalid
	}
	if rate, ok := strings.CutPrefix(inside, "rate("); ok {
		return parseRate(rate)
	}
	if fields, ok := strings.CutPrefix(inside, "cron("); ok {
		c, err := parseCron(strings.Fields(fields))
		return &Schedule{cron: c}, err
	}
	return nil, ErrInvalid
}

var units = map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}

func parseRate(text string) (*Schedule, error) {
	f := strings.Fields(text)
	if len(f) != 2 {
		return nil, ErrInvalid
	}
	n, err := strconv.ParseUint(f[0], 10, 31)
	unit, plural := strings.CutSuffix(f[1], "s")
	d := units[unit]
	if err != nil || n == 0 || d == 0 || plural != (n > 1) || n > uint64(math.MaxInt64/d) {
		return nil, ErrInvalid
	}
	return &Schedule{every: time.Duration(n) * d}, nil
}

// Next returns the first time after a given one when the schedule is due, or false if it never is.
// A rate counts from start.
func (s *Schedule) Next(start, after time.Time) (time.Time, bool) {
	if s.cron != nil {
		return s.cron.next(after.UTC())
	}
	return start.Add((max(after.Sub(start), 0)/s.every + 1) * s.every), true
}

// A cron is the set of minutes when a schedule is due, in UTC.
type cron struct {
	minutes, hours, months, years []int
	days                          []day // of the month
	weekdays                      []day
}

// A day is a day of the month or of the week, where 0 is Sunday.
type day struct {
	n int
	// last means the last day of the month, or the last such weekday of the month.
	last bool
	// nearest means the weekday nearest to the day of the month.
	nearest bool
	// nth is which such weekday of the month; 0 means every one.
	nth int
}

var (
	monthNames = strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC")
	dayNames   = strings.Fields("SUN MON TUE WED THU FRI SAT")
)

const lastYear = 2199

func parseCron(f []string) (*cron, error) {
	if len(f) != 6 || (f[2] == "?") == (f[4] == "?") {
		return nil, ErrInvalid
	}
	c := &cron{}
	ok := true
	set := func(text string, low, high int, names []string) (out []int) {
		for part := range strings.SplitSeq(text, ",") {
			more := span(part, low, high, names)
			ok = ok && more != nil
			out = append(out, more...)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	c.minutes, c.hours, c.months, c.years = set(f[0], 0, 59, nil), set(f[1], 0, 23, nil), set(f[3], 1, 12, monthNames), set(f[5], 1970, lastYear, nil)
	for part := range strings.SplitSeq(f[2], ",") {
		n, near := strings.CutSuffix(part, "W")
		switch {
		case part == "?":
		case part == "L" || part == "LW":
			c.days = append(c.days, day{last: true, nearest: near})
		case near:
			d := span(n, 1, 31, nil)
			if ok = ok && len(d) == 1; ok {
				c.days = append(c.days, day{n: d[0], nearest: true})
			}
		default:
			for _, n := range set(part, 1, 31, nil) {
				c.days = append(c.days, day{n: n})
			}
		}
	}
	for part := range strings.SplitSeq(f[4], ",") {
		name, nth, isNth := strings.Cut(part, "#")
		before, last := strings.CutSuffix(part, "L")
		switch {
		case part == "?":
		case part == "L":
			c.weekdays = append(c.weekdays, day{n: 6})
		case isNth:
			d, n := span(name, 1, 7, dayNames), span(nth, 1, 5, nil)
			if ok = ok && len(d) == 1 && len(n) == 1; ok {
				c.weekdays = append(c.weekdays, day{n: d[0] - 1, nth: n[0]})
			}
		case last:
			d := span(before, 1, 7, dayNames)
			if ok = ok && len(d) == 1; ok {
				c.weekdays = append(c.weekdays, day{n: d[0] - 1, last: true})
			}
		default:
			for _, n := range set(part, 1, 7, dayNames) {
				c.weekdays = append(c.weekdays, day{n: n - 1})
			}
		}
	}
	if !ok {
		return nil, ErrInvalid
	}
	return c, nil
}

// span returns the values of one part of a field: *, 5, 5-10, */5, 5/15, 5-30/5. It returns nil if
// the part is invalid.
func span(text string, low, high int, names []string) []int {
	text, every, stepped := strings.Cut(text, "/")
	step := 1
	if stepped {
		var err error
		if step, err = strconv.Atoi(every); err != nil || step < 1 {
			return nil
		}
	}
	value := func(s string) (int, bool) {
		if i := slices.Index(names, strings.ToUpper(s)); i >= 0 {
			return low + i, true
		}
		n, err := strconv.Atoi(s)
		return n, err == nil && low <= n && n <= high
	}
	from, to := low, high
	if text != "*" {
		first, second, isRange := strings.Cut(text, "-")
		var ok bool
		if from, ok = value(first); !ok {
			return nil
		}
		switch {
		case isRange:
			if to, ok = value(second); !ok {
				return nil
			}
		case !stepped:
			to = from
		}
	}
	var out []int
	if from > to { // such as FRI-MON
		for n := from; n <= high; n += step {
			out = append(out, n)
		}
		from = low
	}
	for n := from; n <= to; n += step {
		out = append(out, n)
	}
	return out
}

func (c *cron) next(after time.Time) (time.Time, bool) {
	t := after.Truncate(time.Minute).Add(time.Minute)
	for t.Year() <= lastYear {
		y, m, d := t.Date()
		switch {
		case !slices.Contains(c.years, y):
			t = time.Date(y+1, 1, 1, 0, 0, 0, 0, time.UTC)
		case !slices.Contains(c.months, int(m)):
			t = time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC)
		case !c.onDay(y, m, d):
			t = time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC)
		case !slices.Contains(c.hours, t.Hour()):
			t = t.Truncate(time.Hour).Add(time.Hour)
		case !slices.Contains(c.minutes, t.Minute()):
			t = t.Add(time.Minute)
		default:
			return t, true
		}
	}
	return time.Time{}, false
}

func (c *cron) onDay(y int, m time.Month, d int) bool {
	last := time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day()
	weekday := func(d int) int { return int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Weekday()) }
	for _, want := range c.days {
		n := want.n
		if want.last {
			n = last
		}
		if want.nearest && n <= last {
			n = nearest(n, last, weekday(n))
		}
		if n == d {
			return true
		}
	}
	for _, want := range c.weekdays {
		if weekday(d) == want.n && (!want.last || d+7 > last) && (want.nth == 0 || (d-1)/7+1 == want.nth) {
			return true
		}
	}
	return false
}

// nearest returns the day from Monday to Friday that is nearest to a day of the month and in the
// same month.
func nearest(n, last, weekday int) int {
	switch {
	case weekday == 6 && n == 1:
		return 3
	case weekday == 6:
		return n - 1
	case weekday == 0 && n == last:
		return n - 2
	case weekday == 0:
		return n + 1
	}
	return n
}
