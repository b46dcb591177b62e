"""Dark launch: a new way to answer runs beside the old one, is compared with it, and takes over by percent."""
