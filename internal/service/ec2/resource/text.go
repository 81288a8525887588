package resource

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Float is a number as filters see it; empty for nil.
func Float(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'f', -1, 64)
}

// TimeText is a time as EC2's filters see it.
func TimeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// joinComma joins for messages.
func joinComma(s []string) string { return strings.Join(s, ", ") }

// Text is a number as filters see it.
func Text(n int32) string { return strconv.Itoa(int(n)) }

// Optional is nil for an empty string.
func Optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Or returns s, or otherwise if s is empty.
func Or(s, otherwise string) string {
	if s != "" {
		return s
	}
	return otherwise
}

// SortedUnique returns ids in order, each once.
func SortedUnique(ids []string) []string {
	out := slices.Clone(ids)
	slices.Sort(out)
	return slices.Compact(out)
}
