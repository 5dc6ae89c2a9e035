"""For those who develop plugins: ``pml plugin new`` begins one, ``pml bench plugins`` measures what each costs."""
