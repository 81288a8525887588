package s3

// Expire applies the lifecycle rules, as Run does from time to time.
var Expire = (*Service).expire
