package ec2

import "time"

// A flowLogRecord says that traffic is to be logged. Nothing is: Drydock keeps
// the record only.
type flowLogRecord struct {
	ID              string // fl-…
	ResourceID      string
	TrafficType     string
	DestinationType string
	Destination     string `json:",omitempty"`
	LogGroup        string `json:",omitempty"`
	RoleARN         string `json:",omitempty"`
	CrossAccountARN string `json:",omitempty"`
	Format          string
	Interval        int32
	FileFormat      string `json:",omitempty"`
	HiveCompatible  bool   `json:",omitempty"`
	PerHour         bool   `json:",omitempty"`
	Created         time.Time
	Tags            Tags `json:",omitempty"`
}
