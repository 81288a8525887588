package images

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// OlderVersion reports whether a version of the SSM Agent or of its plugin, such as 3.3.40.0, is older than another. A part that is
// not a number counts as 0. rpm compares the versions of packages like this, too: https://rpm.org
func OlderVersion(a, b string) bool {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int {
		n, _ := strconv.Atoi(x)
		k, _ := strconv.Atoi(y)
		return cmp.Compare(n, k)
	}) < 0
}
