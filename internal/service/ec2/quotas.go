package ec2

// A quotaRecord is a quota of an account and region that is not the default.
type quotaRecord struct{ Value float64 }
