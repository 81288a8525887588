// Package accounts reads and writes the users and groups of a machine: /etc/passwd, /etc/group and
// /etc/shadow of its file system.
//
// It does not decide what commands and cloud-init do with them. May be imported by packages that run or test
// machines.
package accounts

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// The files of users and groups.
const (
	passwdFile = "/etc/passwd"
	groupFile  = "/etc/group"
	shadowFile = "/etc/shadow"
)

// Locked is the password field of an account that has no password login.
const Locked = "!!"

// The first IDs of ordinary and of system accounts on Amazon Linux (/etc/login.defs).
const (
	FirstID       = 1000
	FirstSystemID = 201
	lastID        = 60000
)

// A User is a line of /etc/passwd.
type User struct {
	Name     string
	UID, GID int
	Comment  string
	Home     string
	Shell    string
}

// A Group is a line of /etc/group.
type Group struct {
	Name    string
	GID     int
	Members []string
}

// String is the user's line.
func (u User) String() string {
	return fmt.Sprintf("%s:x:%d:%d:%s:%s:%s", u.Name, u.UID, u.GID, u.Comment, u.Home, u.Shell)
}

// String is the group's line.
func (g Group) String() string {
	return fmt.Sprintf("%s:x:%d:%s", g.Name, g.GID, strings.Join(g.Members, ","))
}

// A Reader reads the files of a machine.
type Reader interface {
	ReadFile(name string) ([]byte, error)
}

// Files are those of a machine.
type Files interface {
	Reader
	WriteFile(name string, data []byte, perm fs.FileMode) error
}

// records returns the lines of a file, each with at least n fields. A missing file has none.
func records(files Reader, name string, n int) [][]string {
	b, _ := files.ReadFile(name) // without the file there are no users
	var out [][]string
	for line := range strings.Lines(string(b)) {
		if p := strings.Split(strings.TrimRight(line, "\n"), ":"); len(p) >= n {
			out = append(out, p)
		}
	}
	return out
}

// Users returns all users. Malformed lines are skipped.
func Users(files Reader) []User {
	var out []User
	for _, p := range records(files, passwdFile, 3) {
		for len(p) < 7 {
			p = append(p, "")
		}
		uid, err := strconv.Atoi(p[2])
		if err != nil {
			continue
		}
		gid, err := strconv.Atoi(p[3])
		if err != nil {
			gid = uid
		}
		out = append(out, User{Name: p[0], UID: uid, GID: gid, Comment: p[4], Home: p[5], Shell: p[6]})
	}
	return out
}

// Groups returns all groups.
func Groups(files Reader) []Group {
	var out []Group
	for _, p := range records(files, groupFile, 3) {
		gid, err := strconv.Atoi(p[2])
		if err != nil {
			continue
		}
		g := Group{Name: p[0], GID: gid}
		if len(p) > 3 && p[3] != "" {
			g.Members = strings.Split(p[3], ",")
		}
		out = append(out, g)
	}
	return out
}

// FindUser finds a user by name or, written as a number, by ID.
func FindUser(files Reader, name string) (User, bool) {
	id, err := strconv.Atoi(name)
	for _, u := range Users(files) {
		if u.Name == name || err == nil && u.UID == id {
			return u, true
		}
	}
	return User{}, false
}

// FindGroup finds a group by name or, written as a number, by ID.
func FindGroup(files Reader, name string) (Group, bool) {
	id, err := strconv.Atoi(name)
	for _, g := range Groups(files) {
		if g.Name == name || err == nil && g.GID == id {
			return g, true
		}
	}
	return Group{}, false
}

// NextUID returns the next free user ID.
func NextUID(files Reader, system bool) int {
	var used []int
	for _, u := range Users(files) {
		used = append(used, u.UID)
	}
	return next(used, system)
}

// NextGID returns the next free group ID that is not a user ID either.
func NextGID(files Reader, system bool) int {
	var used []int
	for _, u := range Users(files) {
		used = append(used, u.GID)
	}
	for _, g := range Groups(files) {
		used = append(used, g.GID)
	}
	return next(used, system)
}

// next returns a free ID, chosen as in shadow-utils: the one above the highest ID of ordinary accounts, or the one below the
// lowest ID of system accounts. If that would leave the range, it is the first free ID in the range.
// https://github.com/shadow-maint/shadow/blob/master/lib/find_new_uid.c
func next(used []int, system bool) int {
	first, last, step := FirstID, lastID, 1
	if system {
		first, last, step = FirstID-1, FirstSystemID, -1
	}
	taken := map[int]bool{}
	id := first
	for _, n := range used {
		taken[n] = true
		if (n-id)*step >= 0 && (last-n)*step > 0 {
			id = n + step
		}
	}
	if taken[id] { // the range has no free ID at its end
		for id = first; taken[id] && id != last; {
			id += step
		}
	}
	return id
}

// PutUser adds a user or replaces the one with that name.
func PutUser(files Files, u User) error { return put(files, passwdFile, u.Name, u.String(), 0o644) }

// PutGroup adds a group or replaces the one with that name.
func PutGroup(files Files, g Group) error { return put(files, groupFile, g.Name, g.String(), 0o644) }

// RemoveUser removes a user and the user's password.
func RemoveUser(files Files, name string) error {
	return errors.Join(put(files, passwdFile, name, "", 0o644), put(files, shadowFile, name, "", 0))
}

// RemoveGroup removes a group.
func RemoveGroup(files Files, name string) error { return put(files, groupFile, name, "", 0o644) }

// Password returns the password field of an account, encrypted or Locked.
func Password(files Reader, name string) string {
	for _, p := range records(files, shadowFile, 2) {
		if p[0] == name {
			return p[1]
		}
	}
	return Locked
}

// SetPassword sets the password field of an account.
func SetPassword(files Files, name, field string) error {
	return put(files, shadowFile, name, name+":"+field+":::::::", 0)
}

// put replaces the line of a name, appends it if there is none, or removes it if the new line is empty. All other
// lines are unchanged.
func put(files Files, file, name, line string, perm fs.FileMode) error {
	b, err := files.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var out strings.Builder
	done := line == ""
	for old := range strings.Lines(string(b)) {
		old = strings.TrimRight(old, "\n")
		if n, _, _ := strings.Cut(old, ":"); n == name {
			if !done {
				out.WriteString(line + "\n")
			}
			done = true
			continue
		}
		out.WriteString(old + "\n")
	}
	if !done {
		out.WriteString(line + "\n")
	}
	if out.Len() == 0 && len(b) == 0 {
		return nil
	}
	return files.WriteFile(file, []byte(out.String()), perm)
}

// ValidName reports whether useradd accepts a name.
func ValidName(name string) bool {
	if name == "" || len(name) > 32 {
		return false
	}
	for i, r := range name {
		lower := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !lower && (i == 0 || (r < '0' || r > '9') && r != '-' && r != '.' && (r != '$' || i != len(name)-1)) {
			return false
		}
	}
	return true
}
