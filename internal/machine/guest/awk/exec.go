package awk

import (
	"maps"
	"slices"
)

// flow says how a statement ends.
type flow int

const (
	flowOn flow = iota
	flowBreak
	flowContinue
	flowNext
	flowExit
)

type (
	blockStmt []stmt
	exprStmt  struct{ x expr }
	flowStmt  struct{ flow flow }
	ifStmt    struct {
		cond            expr
		then, otherwise stmt
	}
	// A loopStmt is while, for, and do, whose body runs at least once.
	loopStmt struct {
		first, step stmt
		cond        expr
		body        stmt
		once        bool
	}
	eachStmt struct {
		name, array string
		body        stmt
	}
	exitStmt   struct{ status expr }
	deleteStmt struct {
		array string
		index []expr
	}
	printStmt struct {
		format bool
		args   []expr
		to     expr
		add    bool
	}
)

func (s blockStmt) exec(m *machine) flow {
	for _, x := range s {
		if f := x.exec(m); f != flowOn {
			return f
		}
	}
	return flowOn
}

func (s exprStmt) exec(m *machine) flow { m.step(); s.x.eval(m); return flowOn }
func (s flowStmt) exec(*machine) flow   { return s.flow }

func (s *ifStmt) exec(m *machine) flow {
	m.step()
	switch {
	case s.cond.eval(m).isTrue():
		return s.then.exec(m)
	case s.otherwise != nil:
		return s.otherwise.exec(m)
	}
	return flowOn
}

func (s *loopStmt) exec(m *machine) flow {
	if s.first != nil {
		s.first.exec(m)
	}
	for n := 0; s.once && n == 0 || s.cond == nil || s.cond.eval(m).isTrue(); n++ {
		m.step()
		if s.body != nil {
			switch f := s.body.exec(m); f {
			case flowBreak:
				return flowOn
			case flowNext, flowExit:
				return f
			}
		}
		if s.step != nil {
			s.step.exec(m)
		}
	}
	return flowOn
}

// AWK does not define the order of for (x in a); here it is the order of the indexes.
func (s *eachStmt) exec(m *machine) flow {
	a := m.array(s.array)
	keys := slices.SortedFunc(maps.Keys(a), func(x, y string) int { return compare(fromInput(x), fromInput(y), "") })
	for _, k := range keys {
		m.step()
		m.set(s.name, fromInput(k))
		switch f := s.body.exec(m); f {
		case flowBreak:
			return flowOn
		case flowNext, flowExit:
			return f
		}
	}
	return flowOn
}

func (s *exitStmt) exec(m *machine) flow {
	if s.status != nil {
		m.status = int(s.status.eval(m).number()) & 0xff
	}
	return flowExit
}

func (s *deleteStmt) exec(m *machine) flow {
	if s.index == nil {
		clear(m.array(s.array))
	} else {
		delete(m.array(s.array), m.key(s.index))
	}
	return flowOn
}

func (s *printStmt) exec(m *machine) flow {
	m.step()
	var out string
	switch {
	case s.format:
		out = m.sprintf(s.args)
	case len(s.args) == 0:
		out = m.field(0).s + m.text(m.vars["ORS"])
	default:
		format := m.text(m.vars["OFMT"])
		for i, x := range s.args {
			if i > 0 {
				out += m.text(m.vars["OFS"])
			}
			out += x.eval(m).string(format)
			m.bound(len(out))
		}
		out += m.text(m.vars["ORS"])
	}
	m.print(out, s.to, s.add)
	return flowOn
}
