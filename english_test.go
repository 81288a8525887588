package drydock

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A phrasing is a list of turns of phrase to avoid, separated by |, and what to write instead.
type phrasing struct{ avoid, write string }

var phrasings = []phrasing{
	{"there is nobody who|nobody looked|nobody took", `what is missing: "no X is configured", "X has not been checked yet"`},
	{"is no error|are no error|is no errors", `"is not an error"`},
	{"is no number|is no host name|is no protocol|is no address of|is no kind of|is no region|is no URL|is no pattern|is no variable|is no array", `"is not a …"`},
	{"%q is none|whose name is none|a number that is none|is no time to come", `"invalid X %q: want …"`},
	{"for ever", `"forever"`},
	{"written anew|issued anew|starts anew|begins anew|made anew|born anew", `"again", "reissued", "starts over"`},
	{"is born with|are born with", `"every new X has"`},
	{"made meanwhile|gone meanwhile|forgotten meanwhile|deleted meanwhile|ended meanwhile", `"in the meantime"`},
	{"policies of now|policies of today|network of now", `"current policies", "the current network"`},
	{"would mend it|mends it|mends them|to mend|is mended|are mended|file://MENDED", `"fix"`},
	{"what is there of|what is left of", `"the existing X", "the remains of X"`},
	{"knows no service|knows no cluster|knows no node|knows no version|knows no format|knows no names", `"does not know", "does not depend on"`},
	{"all the same.|all the same,|all the same:|all the same;", `"still", "anyway"`},
	{"otherwise than", `"differently from", "differs from"`},
	{"for want of|wherewith|lest|by whom|in every way but", `a sentence with a subject and a verb`},
	{"it is on its way.|that are no more|which is no more|where it may be had", `"still in progress", "no longer exists"`},
	{"the front door", `"the AWS API server"`},
	{"; false if there is none|; nil if there is none|false for none|nil for none", `"or false if there is none"`},
}

// TestPlainEnglish finds turns of phrase in comments, strings, docs and scripts that make
// readers stumble. The list has those that came up most often. The rule behind it is:
// subject, verb, object, and the word that engineers use.
func TestPlainEnglish(t *testing.T) {
	type phrase struct {
		text, write string
		whole       *regexp.Regexp
	}
	var phrases []phrase
	for _, p := range phrasings {
		for text := range strings.SplitSeq(p.avoid, "|") {
			phrases = append(phrases, phrase{text, p.write, regexp.MustCompile(`(^|\W)` + regexp.QuoteMeta(text) + `(\W|$)`)})
		}
	}
	check := func(where, text string) {
		for _, p := range phrases {
			if strings.Contains(text, p.text) && p.whole.MatchString(text) {
				t.Errorf("%s: %q; write %s", where, p.text, p.write)
			}
		}
	}
	for _, f := range goFiles(t) {
		if f.path == "english_test.go" { // quotes them
			continue
		}
		for _, g := range f.ast.Comments {
			check(f.fset.Position(g.Pos()).String(), strings.Join(strings.Fields(g.Text()), " "))
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				check(f.fset.Position(l.Pos()).String(), l.Value)
			}
			return true
		})
	}
	for _, root := range []string{"README.md", "CONTRIBUTING.md", "docs", "test", "tools"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				if d != nil && path == "docs/decisions" { // decisions are never rewritten
					return fs.SkipDir
				}
				return err
			}
			if ext := filepath.Ext(path); ext != ".md" && ext != ".txtar" {
				return nil
			}
			text, err := os.ReadFile(path)
			if err == nil {
				check(path, string(text))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
