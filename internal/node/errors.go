package node

import "errors"

var (
	// ErrNotRunning says that no runtime runs the instance.
	ErrNotRunning = errors.New("instance is not running")
	// ErrAddressLimit says that an instance has as many network interfaces and
	// addresses as its type allows.
	ErrAddressLimit = errors.New("instance type allows no more network interfaces or addresses")
	// ErrShutdown says that the runtime has ended.
	ErrShutdown = errors.New("node runtime has shut down")
)
