package document

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Preferences are the inputs of a Session document.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/session-manager-schema.html
type Preferences struct {
	S3BucketName                string `json:"s3BucketName"`
	S3KeyPrefix                 string `json:"s3KeyPrefix"`
	S3EncryptionEnabled         bool   `json:"s3EncryptionEnabled"`
	CloudWatchLogGroupName      string `json:"cloudWatchLogGroupName"`
	CloudWatchEncryptionEnabled bool   `json:"cloudWatchEncryptionEnabled"`
	CloudWatchStreamingEnabled  bool   `json:"cloudWatchStreamingEnabled"`
	KMSKeyID                    string `json:"kmsKeyId"`
	RunAsEnabled                bool   `json:"runAsEnabled"`
	RunAsDefaultUser            string `json:"runAsDefaultUser"`
	IdleSessionTimeout          number `json:"idleSessionTimeout"` // in minutes, 0 if it is not set
	MaxSessionDuration          number `json:"maxSessionDuration"` // in minutes, 0 if it is not set
	ShellProfile                struct {
		Windows string `json:"windows"`
		Linux   string `json:"linux"`
	} `json:"shellProfile"`
}

// A number is an integer, which documents may write as text.
type number int

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	if text == "" || text == "null" {
		return nil
	}
	v, err := strconv.Atoi(text)
	*n = number(v)
	return err
}

// remarshal decodes v, which came from JSON, into another form.
func remarshal(v, into any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// Preferences returns a Session document's preferences.
func (d *Document) Preferences(values map[string]any) (p Preferences, err error) {
	if err := remarshal(Fill(d.Inputs, values), &p); err != nil {
		return p, invalid("The inputs are not valid: %v", err)
	}
	switch {
	case p.IdleSessionTimeout < 0 || p.IdleSessionTimeout > 60:
		err = invalid("idleSessionTimeout must be between 1 and 60 minutes")
	case p.MaxSessionDuration < 0 || p.MaxSessionDuration > 1440:
		err = invalid("maxSessionDuration must be between 1 and 1440 minutes")
	}
	return p, err
}

// A Program is what a Session document with commands runs on Linux.
type Program struct {
	Commands string `json:"commands"`
	Elevated bool   `json:"runAsElevated"` // as root
}

// Program returns what a session runs.
func (d *Document) Program(values map[string]any) (p Program, err error) {
	filled, _ := Fill(d.Properties, values).(map[string]any)
	linux, _ := filled["linux"].(map[string]any)
	if linux == nil {
		return p, nil
	}
	linux["commands"] = textOf(linux["commands"])
	return p, remarshal(linux, &p)
}

// A Forwarding is what a Session document for ports forwards.
type Forwarding struct {
	Host, LocalPort string
	Port            int
	// Type is LocalPortForwarding, or empty if the client's standard input and output are the connection.
	Type string
}

// Forwarding returns what a session forwards.
func (d *Document) Forwarding(values map[string]any) (Forwarding, error) {
	p, _ := Fill(d.Properties, values).(map[string]any)
	out := Forwarding{Host: textOf(p["host"]), LocalPort: textOf(p["localPortNumber"]), Type: textOf(p["type"])}
	var err error
	if out.Port, err = strconv.Atoi(textOf(p["portNumber"])); err != nil || out.Port < 1 || out.Port > 65535 {
		return out, &Error{"InvalidParameters", "portNumber " + strconv.Quote(textOf(p["portNumber"])) + " is not a number between 1 and 65535"}
	}
	return out, nil
}

// A Script is what a step of a Command document runs.
type Script struct {
	Name, Action string
	// Inputs are the inputs of actions other than RunShellScript. The other actions have no Text and Dir.
	Inputs map[string]string
	// Skipped says why the step does not run on Linux, and Failure why it cannot run; both are empty otherwise.
	Skipped, Failure string
	Text, Dir        string
	TimeoutSeconds   int
	// ExitOnFailure means that the following steps do not run if this one fails, and ExitOnSuccess that they do not run if
	// it succeeds.
	ExitOnFailure, ExitOnSuccess bool
	// SucceedOnFailure means, besides ExitOnFailure, that the failed step counts as a success.
	SucceedOnFailure bool
}

// MaxTimeout is the maximum of timeoutSeconds.
const MaxTimeout = 172_800

// Scripts returns what a Command document runs.
func (d *Document) Scripts(values map[string]any) ([]Script, error) {
	var out []Script
	for i := range d.Steps {
		step := &d.Steps[i]
		s := Script{Name: step.Name, Action: step.Action, TimeoutSeconds: 3600}
		if !step.applies(values) {
			s.Skipped = "Step execution skipped due to unsatisfied preconditions: '\"StringEquals\": [platformType, " + textOf(last(step.Precondition["StringEquals"])) + "]'. Step name: " + step.Name
			out = append(out, s)
			continue
		}
		inputs, _ := Fill(step.Inputs, values).(map[string]any)
		if step.Action != RunShellScript {
			s.Inputs = map[string]string{}
			for name, v := range inputs {
				s.Inputs[name] = textOf(v)
			}
			out = append(out, s)
			continue
		}
		lines, ok := inputs["runCommand"].([]any)
		if !ok {
			lines = []any{inputs["runCommand"]}
		}
		text := make([]string, len(lines))
		for i, l := range lines {
			text[i] = textOf(l)
		}
		s.Text, s.Dir = strings.Join(text, "\n"), textOf(inputs["workingDirectory"])
		if t := textOf(inputs["timeoutSeconds"]); t != "" {
			var err error
			if s.TimeoutSeconds, err = strconv.Atoi(t); err != nil || s.TimeoutSeconds < 1 || s.TimeoutSeconds > MaxTimeout {
				return nil, &Error{"InvalidParameters", "the time-out " + strconv.Quote(t) + " is not a number of seconds between 1 and " + strconv.Itoa(MaxTimeout)}
			}
		}
		s.SucceedOnFailure = textOf(inputs["onFailure"]) == "successAndExit"
		s.ExitOnFailure = s.SucceedOnFailure || textOf(inputs["onFailure"]) == "exit"
		s.ExitOnSuccess = textOf(inputs["onSuccess"]) == "exit"
		out = append(out, s)
	}
	return out, nil
}

func last(list []any) any {
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

// applies reports whether a step's precondition is met on Linux.
func (s *Step) applies(values map[string]any) bool {
	for operator, operands := range s.Precondition {
		if operator != "StringEquals" || len(operands) != 2 {
			return false
		}
		var sides [2]string
		for i, o := range operands {
			if sides[i] = textOf(Fill(o, values)); sides[i] == "platformType" {
				sides[i] = "Linux"
			}
		}
		if sides[0] != sides[1] {
			return false
		}
	}
	return true
}
