package child

// CloseHost is closeHost.
var CloseHost = closeHost
