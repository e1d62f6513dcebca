import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False, verbose_name="number")),
                ("customer", models.CharField(max_length=200)),
                ("address", models.TextField()),
                ("quantity", models.PositiveIntegerField()),
                ("total", models.DecimalField(decimal_places=2, max_digits=12)),
                ("note", models.TextField(blank=True)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("placed", "Placed"),
                            ("waiting for approval", "Waiting"),
                            ("shipped", "Shipped"),
                            ("rejected", "Rejected"),
                            ("sold out", "Sold Out"),
                            ("card refused", "Card Refused"),
                        ],
                        default="placed",
                        max_length=24,
                    ),
                ),
                ("placed_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="Product",
            fields=[
                ("sku", models.CharField(max_length=32, primary_key=True, serialize=False, verbose_name="SKU")),
                ("name", models.CharField(max_length=200)),
                ("stock", models.PositiveIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="ChargeAttempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("step_id", models.CharField(max_length=255, verbose_name="step id")),
                ("attempt", models.PositiveIntegerField()),
                ("worker", models.PositiveIntegerField(verbose_name="process id")),
                (
                    "outcome",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "did not end"),
                            ("charged", "Charged"),
                            ("found charged", "Found"),
                            ("provider unavailable", "Unavailable"),
                            ("answer lost", "Answer Lost"),
                            ("card refused", "Refused"),
                        ],
                        default="",
                        max_length=24,
                    ),
                ),
                ("began_at", models.DateTimeField(auto_now_add=True)),
                (
                    "order",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="charge_attempts", to="shop.order"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Charge",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("step_id", models.CharField(max_length=255, unique=True, verbose_name="step id")),
                ("amount", models.DecimalField(decimal_places=2, max_digits=12)),
                ("charged_at", models.DateTimeField(auto_now_add=True)),
                (
                    "order",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="charges", to="shop.order"
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="order",
            name="product",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="orders", to="shop.product"
            ),
        ),
        migrations.CreateModel(
            name="Shipment",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("tracking", models.UUIDField(unique=True, verbose_name="tracking number")),
                ("quantity", models.PositiveIntegerField()),
                ("shipped_at", models.DateTimeField(auto_now_add=True)),
                (
                    "order",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="shipments", to="shop.order"
                    ),
                ),
            ],
        ),
    ]
