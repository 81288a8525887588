package ekserr

import (
	"fmt"
	"testing"
)

// A loudError counts how often its text is read.
type loudError struct {
	text   string
	looked int
}

func (e *loudError) Error() string {
	e.looked++
	return e.text
}

// EC2's error may quote as many subnets as the request has. Its text is searched once, not once per
// subnet.
func TestQuotedID(t *testing.T) {
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = fmt.Sprintf("subnet-%d", i)
	}
	for text, want := range map[string]string{
		"The subnet ID 'subnet-999' does not exist":           "subnet-999",
		"The subnet IDs 'subnet-5, subnet-6' do not exist":    "subnet-0",
		"Invalid id: \"subnet-7\" (expecting \"subnet-...\")": "subnet-0",
		"'subnet-1000' 'subnet-10'":                           "subnet-10",
	} {
		err := &loudError{text: text}
		if got := QuotedID(err, ids); got != want || err.looked != 1 {
			t.Errorf("%s: %s, looked through %d times", text, got, err.looked)
		}
	}
}
