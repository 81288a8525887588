package cli

import "strings"

// nearest returns the word that is most like what was typed, or "" if none is much like it.
// Case and dashes do not count, so create-vpc is CreateVpc.
func nearest(typed string, words []string) string {
	typed = plain(typed)
	best, least := "", len(typed)/3+2
	for _, w := range words {
		p := plain(w)
		d := distance(typed, p)
		if len(typed) > 2 && (strings.HasPrefix(p, typed) || strings.HasPrefix(typed, p)) {
			d = min(d, 1)
		}
		if d < least {
			best, least = w, d
		}
	}
	return best
}

func plain(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "") }

// distance is the number of characters to insert, delete or replace in a to get b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
