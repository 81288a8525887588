package resource

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Float formats a number for filters, or returns "" for nil.
func Float(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'f', -1, 64)
}

// TimeText formats a time for EC2's filters.
func TimeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// joinComma joins strings for messages.
func joinComma(s []string) string { return strings.Join(s, ", ") }

// Text formats a number for filters.
func Text(n int32) string { return strconv.Itoa(int(n)) }

// Optional returns nil for an empty string.
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

// SortedUnique returns the sorted ids without duplicates.
func SortedUnique(ids []string) []string {
	out := slices.Clone(ids)
	slices.Sort(out)
	return slices.Compact(out)
}
