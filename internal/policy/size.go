package policy

import "unicode/utf8"

// Size counts the characters of a document as IAM's quotas do: without white space.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html#reference_iam-quotas-entity-length
func Size(text string) int {
	n := utf8.RuneCountInString(text)
	for i := range len(text) {
		switch text[i] {
		case ' ', '\t', '\n', '\r':
			n--
		}
	}
	return n
}
