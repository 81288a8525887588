package failures

import (
	"fmt"
	"strings"
)

// Pages returns docs/failures by file name: a page per class, and their index.
func Pages() map[string]string {
	out := map[string]string{}
	var index strings.Builder
	index.WriteString(`# What goes wrong, and how to diagnose it

Written by ` + "`make failures`" + ` from the table in internal/failures, which test/e2e plays row by row with the AWS CLI and kubectl:
for each failure it breaks something, checks the symptom, runs ` + "`drydock why`" + `, applies the fix and waits until it works. Please don't edit.
Words with a $ are shell variables.
`)
	var page *strings.Builder
	var class *Class
	flush := func() {
		if page != nil {
			out[class.Name+".md"] = page.String()
		}
	}
	for _, f := range All() {
		if f.Class != class {
			flush()
			class, page = f.Class, &strings.Builder{}
			fmt.Fprintf(page, "# %s\n\n%s\n\nWritten by `make failures` from internal/failures; every command here is run by test/e2e.\n", class.Title, class.About)
			fmt.Fprintf(&index, "\n## [%s](%s.md)\n\n| what is broken | step that fails | how far it comes |\n|---|---|---|\n", class.Title, class.Name)
		}
		fmt.Fprintf(&index, "| [%s](%s.md#%s) | %s | %s |\n", f.Title, class.Name, anchor(f.Title), f.step(), f.Outcome)
		f.write(page)
	}
	flush()
	out["README.md"] = index.String()
	return out
}

// step returns the row's step as a table shows it.
func (f *Failure) step() string {
	if strings.Contains(f.Step, " ") {
		return "a note"
	}
	return "`" + f.Step + "`"
}

// anchor returns the link target of a heading.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_':
			return r
		}
		return -1
	}, strings.ToLower(title))
}

func (f *Failure) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\nHow far it comes: %s.\n", f.Title, f.Broken, f.Outcome)
	b.WriteString("\n**Rehearse it**\n\n```sh\n")
	for _, c := range f.Break {
		b.WriteString(c + "\n")
	}
	if f.Launch != "" {
		b.WriteString(f.Launch + "\n")
	}
	for _, c := range f.After {
		b.WriteString(c + "\n")
	}
	b.WriteString("```\n")
	if f.UserData != "" {
		b.WriteString("\nwith this file `user-data`:\n\n" + fenced(f.UserData))
	}
	if f.Look != "" {
		fmt.Fprintf(b, "\n**What you see on AWS**\n\n```sh\n%s\n```\n\nshows, as a regular expression: `%s`\n", f.Look, f.Symptom)
	} else {
		fmt.Fprintf(b, "\n**What you see on AWS**, in the logs of the node (`journalctl -u kubelet -u nodeadm-config`), as a regular expression: `%s`\n", f.Symptom)
	}
	fmt.Fprintf(b, "\n**What `drydock why %s` says**: %s, and\n\n```text\n%s\n```\n", f.Why, f.says(), strings.Join(f.Verdict, "\n"))
	b.WriteString("\n**Fix**\n\n```sh\n")
	for _, c := range f.Fix {
		b.WriteString(c + "\n")
	}
	if f.Relaunch {
		command := f.FixedLaunch
		if command == "" {
			command = f.Launch
		}
		b.WriteString(command + "\n")
	}
	b.WriteString("```\n")
	if f.Relaunch && f.FixedUserData != "" && f.FixedUserData != f.UserData {
		b.WriteString("\nwith this file `user-data`:\n\n" + fenced(f.FixedUserData))
	}
	b.WriteString("\nSources:\n\n")
	for _, s := range f.Sources {
		b.WriteString("- <" + s + ">\n")
	}
}

func (f *Failure) says() string {
	if f.Outcome == Warned {
		return "it warns about " + f.step()
	}
	return "the first step that fails is " + f.step()
}

func fenced(text string) string {
	return "```\n" + strings.TrimRight(strings.ReplaceAll(text, "$$", "$"), "\n") + "\n```\n"
}
