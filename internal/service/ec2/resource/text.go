package resource

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
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

// Text64 is Text for larger numbers.
func Text64(n int64) string { return strconv.FormatInt(n, 10) }

// PrivateASN checks the number of Amazon's side of a BGP session.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_TransitGatewayRequestOptions.html
func PrivateASN(n int64) (int64, error) {
	if n >= 64512 && n <= 65534 || n >= 4200000000 && n <= 4294967294 {
		return n, nil
	}
	return 0, ec2err.InvalidValue(n, "amazonSideAsn", "The range is 64512 to 65534 for 16-bit ASNs and 4200000000 to 4294967294 for 32-bit ASNs.")
}

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
