"""What people and machines are shown of the state: status, figures over a time, plots and pages. Changes nothing."""
