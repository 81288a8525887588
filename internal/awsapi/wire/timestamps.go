package wire

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// The timestamp formats, in the words of the models.
const (
	formatISO8601 = "iso8601"
	formatRFC822  = "rfc822"
	formatUnix    = "unixTimestamp"
)

const httpDate = "Mon, 02 Jan 2006 15:04:05 GMT"

// appendTime appends t in the given format. AWS's services have millisecond precision. EC2 always prints the
// milliseconds (millis); others only if they are not zero.
func appendTime(b []byte, t time.Time, format string, millis bool) []byte {
	t = t.UTC()
	switch format {
	case formatRFC822:
		return t.AppendFormat(b, httpDate)
	case formatUnix:
		ms := t.UnixMilli()
		if ms < 0 {
			b, ms = append(b, '-'), -ms
		}
		b = strconv.AppendInt(b, ms/1000, 10)
		if frac := ms % 1000; frac != 0 {
			s := strings.TrimRight(fmt.Sprintf("%03d", frac), "0")
			b = append(append(b, '.'), s...)
		}
		return b
	default:
		if millis || t.Nanosecond() >= int(time.Millisecond) {
			return t.AppendFormat(b, "2006-01-02T15:04:05.000Z")
		}
		return t.AppendFormat(b, "2006-01-02T15:04:05Z")
	}
}

// timeLayouts are the text forms of timestamps that AWS accepts and clients send.
var timeLayouts = []string{
	time.RFC3339Nano,
	"2006-01-02T15:04:05.999999999",
	"2006-01-02T15:04:05.999999999Z0700",
	"2006-01-02T15:04Z",
	"2006-01-02",
	httpDate,
	time.RFC1123,
	time.RFC1123Z,
	time.RFC850,
	"Mon, 2 Jan 2006 15:04:05 GMT",
}

// parseTime reads a timestamp in any of AWS's formats. Services accept all of them, whichever the model prescribes to
// clients.
func parseTime(s string) (time.Time, bool) {
	if t, ok := parseUnix(s); ok {
		return t, true
	}
	for _, l := range timeLayouts {
		if t, err := time.Parse(l, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// maxUnix is the end of year 9999, the last year that the other formats can express.
const maxUnix = 253402300799

func parseUnix(s string) (time.Time, bool) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || math.Abs(f) > maxUnix {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(math.Round(f * 1000))).UTC(), true
}
