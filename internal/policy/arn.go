package policy

import "github.com/drydock-dev/drydock/internal/glob"

// An arnTemplate is a pattern of ARNs. Each field is matched separately: wildcards do not cross the first five
// colons, and a pattern with fewer fields is completed with wildcards.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html
type arnTemplate struct {
	template
	all    bool // nothing but "*"
	fields []arnField
}

// An arnField is one field of an arnTemplate. Its pattern is made when the policy is read, unless the field has
// variables.
type arnField struct {
	template
	pattern glob.Pattern
}

func newARNTemplate(text, version string) arnTemplate {
	t := arnTemplate{template: newTemplate(text, version), all: isStars(text)}
	at := 0
	add := func(end int) {
		f := arnField{template: newTemplate(text[at:end], version)}
		if len(f.vars) == 0 {
			f.pattern = glob.New(f.text, nil)
		}
		t.fields = append(t.fields, f)
		at = end + 1
	}
	vars := t.vars
	for i := 0; i < len(text) && len(t.fields) < 5; i++ {
		switch {
		case len(vars) > 0 && i == vars[0].start: // a key's colon is not a separator of the ARN
			i, vars = vars[0].end-1, vars[1:]
		case text[i] == ':':
			add(i)
		}
	}
	add(len(text))
	return t
}

// match matches an ARN that was split into its n fields.
func (t *arnTemplate) match(arn *[6]string, n int, ctx *Context) verdict {
	if len(t.fields) > n {
		return no
	}
	// Start at the end, where ARNs differ.
	for i := len(t.fields) - 1; i >= 0; i-- {
		if f := &t.fields[i]; len(f.vars) == 0 && !f.pattern.Match(arn[i]) {
			return no
		}
	}
	v := yes
	for i := range t.fields {
		f := &t.fields[i]
		if len(f.vars) == 0 {
			continue
		}
		text, literal, ok := f.resolve(ctx)
		if ok == no {
			return no
		}
		g := glob.New(text, literal)
		v = both(v, both(ok, is(g.Match(arn[i]))))
	}
	return v
}

func arnGlobs(text string, literal []bool) []glob.Pattern {
	var f [6]string
	n := splitARN(text, &f)
	out := make([]glob.Pattern, n)
	at := 0
	for i := range n {
		var lit []bool
		if literal != nil {
			lit = literal[at : at+len(f[i])]
		}
		out[i] = glob.New(f[i], lit)
		at += len(f[i]) + 1
	}
	return out
}

func matchFields(globs []glob.Pattern, arn *[6]string, n int) bool {
	if len(globs) > n {
		return false
	}
	// Start at the end, where ARNs differ.
	for i := len(globs) - 1; i >= 0; i-- {
		if !globs[i].Match(arn[i]) {
			return false
		}
	}
	return true
}
