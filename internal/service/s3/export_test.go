package s3

// Expire applies the lifecycle rules, as Run does periodically.
var Expire = (*Service).expire
