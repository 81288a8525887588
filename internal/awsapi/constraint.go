package awsapi

// A Constraint says what AWS demands of values in a service's requests where the API model says something else, or
// nothing. Whatever it leaves zero stays as the model has it. awsapi/wire checks requests against it.
type Constraint struct {
	// At lists, separated by spaces, shapes of the model, and members as Operation.Member or Structure.Member. A row for
	// a member replaces one for its shape.
	At string
	// Min and Max bound a number, or the length of a string, list or map. Pattern is a Java regular expression that
	// must match the whole string. Enum lists the allowed values of a string or number.
	Min, Max *float64
	Pattern  string
	Enum     []string
	// PatternText, if it is not nil, returns the service's own message for a value, at path in the request, that does
	// not match the pattern. Otherwise the message has the words of the service's framework.
	PatternText func(path string) string
	// Unchecked is a constraint of the model that AWS does not enforce, or that the handler checks because its
	// violation has an exception of its own.
	Unchecked Unchecked
	Source    string
}

// Unchecked names a kind of constraint.
type Unchecked string

const (
	UncheckedRequired Unchecked = "required"
	UncheckedSize     Unchecked = "size" // Min and Max
	UncheckedPattern  Unchecked = "pattern"
	UncheckedEnum     Unchecked = "enum"
)
